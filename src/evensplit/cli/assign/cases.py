"""Assignment cases: who wants to read which topics, and who says that it owns what, as JSON.

A file has one case or a list of cases. A case is an object with

    id        what the case is called
    topics    topic -> its number of partitions
    members   member -> the topics it may read; one that is not in `topics` does not exist, which is no error
    claims    [{"member", "generation" (a whole number; null: none known), "partitions": ["topic-partition", ...]}];
              may be left out

Other fields are ignored. A case has no clusters, so all of its splits are in the one cluster CLUSTER.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evensplit.core.assign.claims import Claim, resolve_claims
from evensplit.core.assign.terms import Reader
from evensplit.core.json_text import parse_json
from evensplit.core.model import SplitId, Topic
from evensplit.errors import CaseError

CLUSTER = ""
"""The cluster of all splits of a case."""

SPLITS_MAX = 10_000_000
"""How many partitions a case may have: one digit too many should be an error, not a full memory."""

SHOWN_CHARS_MAX = 60
SPLIT_NAME = re.compile(r".+-(0|[1-9][0-9]{0,9})", re.DOTALL)
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Case:
    """One case, checked. Topics and members are in the order of the file, in which they matter to some policies."""

    id: str
    topics: Mapping[str, int]
    members: Mapping[str, tuple[str, ...]]
    claims: tuple[Claim, ...]

    def splits(self) -> list[SplitId]:
        """Every split that exists."""
        return [SplitId(CLUSTER, topic, number) for topic, count in self.topics.items() for number in range(count)]

    def eligible(self) -> dict[Reader, list[Topic]]:
        """Member -> the topics that it may read and that exist."""
        topics = {name: Topic(CLUSTER, name) for name in self.topics}
        return {
            member: [topics[name] for name in dict.fromkeys(wanted) if name in topics]
            for member, wanted in self.members.items()
        }

    def previous(self) -> dict[SplitId, Reader]:
        """Split -> the member whose claim on it holds."""
        topics = self.topics
        wanted: dict[Reader, frozenset[str]] = {member: frozenset(some) for member, some in self.members.items()}

        def may_own(member: Reader, split: SplitId) -> bool:
            return split.partition < topics.get(split.topic, 0) and split.topic in wanted.get(member, ())

        return resolve_claims(self.claims, may_own)


def name_of(split: SplitId) -> str:
    """What cases call a split."""
    return f"{split.topic}-{split.partition}"


def read_cases(text: str, source: str) -> list[Case]:
    """The cases in `text`; `source` is where it comes from, for messages.

    Raises CaseError with everything that is wrong: in which case, in which field, what was expected and found.
    """
    if not text.strip():
        raise CaseError(source, ["it is empty; expected one case, or a list of at least one, as JSON"])
    repeated: list[str] = []
    try:
        found = parse_json(text, strict=True, object_pairs_hook=lambda pairs: _object(pairs, repeated))
    except ValueError as error:
        raise CaseError(source, [f"it is not JSON: {error}"]) from error
    problems = [f"the name {_shown(name)} stands twice in one object; expected each name once" for name in repeated]
    if SURROGATE.search(text) and not _is_text(json.dumps(found, ensure_ascii=False)):
        problems.append("a text in it has half of a surrogate pair (such as \\ud800), which is no character")
    cases = []
    for number, one in enumerate(found if isinstance(found, list) else [found], start=1):
        reader = _CaseReader(number if isinstance(found, list) else None)
        case = reader.case(one)
        problems += reader.problems
        if case is not None:
            cases.append(case)
    if not problems and not cases:
        problems.append("it has no case; expected one case, or a list of at least one")
    if problems:
        raise CaseError(source, problems)
    return cases


def _object(pairs: list[tuple[str, Any]], repeated: list[str]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        repeated += [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    return made


class _CaseReader:
    """Reads one case and collects what is wrong with it. `number`: its place in the list; None if it is alone."""

    def __init__(self, number: int | None) -> None:
        self.problems: list[str] = []
        self._where = "the case" if number is None else f"case {number}"

    def case(self, found: Any) -> Case | None:
        if not isinstance(found, dict):
            self._wrong("", "an object with id, topics and members", found)
            return None
        name = found.get("id")
        if isinstance(name, str) and name:
            self._where = f"case {name!r}"
        else:
            self._field(found, "id", "a text that is not empty")
        topics = self._topics(found)
        members = self._members(found)
        claims = self._claims(found)
        return None if self.problems else Case(str(name), topics, members, claims)

    def _topics(self, case: dict[str, Any]) -> dict[str, int]:
        topics = case.get("topics")
        if not isinstance(topics, dict):
            self._field(case, "topics", "an object, topic -> number of partitions")
            return {}
        for topic, count in topics.items():
            if not topic:
                self._wrong("topics", "names that are not empty", topic)
            if not _is_whole(count) or count < 0:
                self._wrong(f"topics, {topic!r}", "a number of partitions, 0 or more", count)
        if not self.problems and sum(topics.values()) > SPLITS_MAX:
            self._wrong("topics", f"at most {SPLITS_MAX:,} partitions altogether", sum(topics.values()))
        return topics

    def _members(self, case: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        members = case.get("members")
        if not isinstance(members, dict) or not members:
            self._field(case, "members", "an object, member -> list of topics, with at least one member")
            return {}
        for member, topics in members.items():
            if not member:
                self._wrong("members", "names that are not empty", member)
            self._texts(f"members, {member!r}", "a list of topics", topics)
        return {} if self.problems else {member: tuple(topics) for member, topics in members.items()}

    def _claims(self, case: dict[str, Any]) -> tuple[Claim, ...]:
        claims = case.get("claims", [])
        if not isinstance(claims, list):
            self._field(case, "claims", "a list of claims")
            return ()
        made = [self._claim(f"claims, number {number}", claim) for number, claim in enumerate(claims, start=1)]
        return tuple(claim for claim in made if claim is not None)

    def _claim(self, where: str, claim: Any) -> Claim | None:
        if not isinstance(claim, dict):
            self._wrong(where, "an object with member, generation and partitions", claim)
            return None
        before = len(self.problems)
        member, generation = claim.get("member"), claim.get("generation")
        names: Any = claim.get("partitions")
        if not isinstance(member, str) or not member:
            self._field(claim, "member", "a text that is not empty", where)
        if generation is not None and not _is_whole(generation):
            self._wrong(f"{where}, generation", "a whole number, or null for none", generation)
        if "partitions" not in claim:
            self._field(claim, "partitions", "a list of names as topic-partition", where)
        else:
            self._texts(f"{where}, partitions", "a list of names as topic-partition", names)
        if len(self.problems) > before:
            return None
        for name in names:
            if SPLIT_NAME.fullmatch(name) is None:
                self._wrong(f"{where}, partitions", "names as topic-partition, such as 'orders-0'", name)
        if len(self.problems) > before:
            return None
        splits = (name.rpartition("-") for name in names)
        owned = tuple(SplitId(CLUSTER, topic, int(number)) for topic, _, number in splits)
        return Claim(str(member), owned, generation)

    def _texts(self, where: str, expected: str, found: Any) -> None:
        if not isinstance(found, list):
            self._wrong(where, expected, found)
            return
        for text in found:
            if not isinstance(text, str):
                self._wrong(where, f"{expected}, each a text", text)

    def _field(self, holder: dict[str, Any], field: str, expected: str, where: str = "") -> None:
        path = f"{where}, {field}" if where else field
        if field in holder:
            self._wrong(path, expected, holder[field])
        else:
            self.problems.append(f"{self._where}: {path}: expected {expected}, but it is not there")

    def _wrong(self, where: str, expected: str, found: Any) -> None:
        place = f"{self._where}: {where}" if where else self._where
        self.problems.append(f"{place}: expected {expected}, found {_shown(found)}")


def _is_whole(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(found: Any) -> str:
    text = json.dumps(found, ensure_ascii=False)
    if not _is_text(text):
        text = json.dumps(found)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 3]}..."
