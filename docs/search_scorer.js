// What the search of the site puts first: pages for users, then the API, then pages about the project itself.
// Sphinx takes this in place of its own table, whose figures these are unless a comment says otherwise.
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (page === "howto/cookbook" || page === "howto/troubleshooting") return score + 5;
    if (page.startsWith("adr/")) return score - 30;
    if (/^(architecture|contributing|releasing|state-machine|upstream|reference\/planted-bugs)$/.test(page)) return score - 15;
    return score;
  },
  objNameMatch: 4, // Sphinx: 11. A word such as lag is more often meant than an attribute of that name.
  objPartialMatch: 2, // Sphinx: 6
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
