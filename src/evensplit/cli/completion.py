"""`evensplit completion`: what lets a shell complete commands, options, their values, and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from evensplit.cli.usage import ending

PROGRAM = "evensplit"
VARIABLE = "_EVENSPLIT_COMPLETE"


@click.command(
    epilog=ending(
        "the script was printed",
        "it could not be printed",
        'eval "$(evensplit completion bash)"',
        "evensplit completion fish > evensplit.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for completion in a shell.

    \b
    bash (4.4 or later), in ~/.bashrc:   eval "$(evensplit completion bash)"
    zsh, in ~/.zshrc, after compinit:    eval "$(evensplit completion zsh)"
    fish, once, in ~/.config/fish/completions:
                evensplit completion fish > evensplit.fish

    A shell starts faster if the script is kept in a file and sourced.
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(context.find_root().command, {}, PROGRAM, VARIABLE)
    # Not source(): for bash that starts one, to see whether it is too old, which would be that of another machine.
    click.echo(script.source_template % script.source_vars())
