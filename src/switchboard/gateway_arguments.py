"""What `aai-gateway` can be told on its command line. Light: it is read before an MCP client is answered."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from switchboard import __version__
from switchboard.manners import misused, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

EXAMPLES = """\
examples:
  aai-gateway                    serve MCP on standard input and output; an agent client starts it this way
  aai-gateway --scan             show the apps on this machine, and what is wrong with broken descriptors
  aai-gateway --scan --json      the same for scripts
  aai-gateway --dev              also the descriptors of the build in this folder, and plain http to this machine
  aai-gateway --registry URL     also the web apps of a registry
  aai-gateway --control-plane http://localhost:8080
                                 also the agents that registered there; name several, and one may go down
  aai-gateway --consent browser  ask the user on a page in the browser, and never in a dialog

in the configuration of an agent client:
  {"mcpServers": {"aai-gateway": {"command": "COMMAND"}}}

folders:
  AAI_HOME (default ~/.aai)      <app id>/aai.json for your own apps, web/<app id>/aai.json for registry copies
  XDG_CACHE_HOME/aai-gateway     what web sites publish about themselves, for a day

environment:
  AAI_REGISTRY_URL               registries, separated by spaces, where no --registry is given
  AAI_REGISTRY_KEY               their key; or as many keys as registries, in the same order, - for none
  AGENTFIELD_SERVER              control planes, separated by spaces, where no --control-plane is given
  AGENTFIELD_API_KEY             their key; or as many keys as control planes, in the same order, - for none
  SWITCHBOARD_LOG_LEVEL          debug, info (default), warning or error
  SWITCHBOARD_CACHES             on (default), one or off: how much is remembered to save work
  SWITCHBOARD_VAULT              where secrets and decisions are kept: keychain or file; by default what is there
  SWITCHBOARD_KEY_FILE           a file of 32 bytes or more, mode 0600: the key of the encrypted file
  SWITCHBOARD_PASSPHRASE         what the key of the encrypted file is made of, where there is no such file
  AAI_<APP>_CLIENT_ID, _SECRET   who we are at an OAuth server, where the app does not say

logs go to standard error, and to gateway.log in the user's folder for logs, on Linux ~/.local/state/switchboard/log
"""


class _Parser(ArgumentParser):
    """Says what is wrong in one line, as every command of ours."""

    def error(self, message: str) -> "NoReturn":
        """End because the command was not understood."""
        misused(f"{message[:1].upper()}{message[1:].rstrip('.')}. See aai-gateway --help.")


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    made = _Parser(
        prog="aai-gateway",
        description="Tells an AI agent which apps it can use on this machine: an MCP server on standard streams.",
        epilog=EXAMPLES.replace("COMMAND", os.path.abspath(sys.argv[0])),  # noqa: PTH100 - a path to paste
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--scan", action="store_true", help="print the discovered apps and exit")
    made.add_argument("--json", action="store_true", help="with --scan: print JSON, for scripts")
    made.add_argument(
        "--dev", action="store_true", help="also scan development build folders, and allow plain http to this machine"
    )
    made.add_argument(
        "--registry",
        action="append",
        metavar="URL",
        help="add the web apps of a registry (https, or http on this machine)",
    )
    made.add_argument(
        "--control-plane",
        action="append",
        metavar="URL",
        help="add the agents of a control plane as apps (https, or http on this machine); its key is read from "
        "AGENTFIELD_API_KEY",
    )
    made.add_argument(
        "--tool-names",
        choices=("aai", "portable", "auto"),
        default="auto",
        help="how tools are called in lists: app:<id>, app_<id>, or what suits the client (default)",
    )
    made.add_argument(
        "--consent",
        choices=("auto", "dialog", "browser", "elicit", "deny"),
        default="auto",
        help="how you are asked before anything runs: a dialog of the system, a page in the browser, by the client "
        "(elicit: the client is whom you are asked about), or not at all (deny); by default a dialog, else a page",
    )
    made.add_argument("--version", action="version", version=f"aai-gateway {__version__}")
    return made


def read(arguments: "Sequence[str]") -> Namespace:
    """Return what the command line says; servers of the environment count where it names none.

    Raises:
        Failure: it was not understood, or does not fit together.
    """
    options, others = parser().parse_known_args(arguments)
    if others:
        known = [word.strip("[],") for word in parser().format_usage().split() if "--" in word]
        misused(f"There is no {others[0]!r}.{nearest(others[0], known)} See aai-gateway --help.")
    if options.json and not options.scan:
        misused("--json goes with --scan. See aai-gateway --help.")
    elsewhere = options.registry or options.control_plane
    if options.scan and (elsewhere or options.tool_names != "auto" or options.consent != "auto"):
        misused(
            "--scan shows what is on this machine; --registry, --control-plane, --tool-names and --consent are for "
            "serving."
        )
    if not options.scan:
        _name_servers(options)
    return options


def _name_servers(options: Namespace) -> None:
    """Put the servers that are named, here or in the environment, in the place of their addresses."""
    from switchboard.named import named_planes, named_registries

    try:
        options.registry = named_registries(options.registry or ())
        options.control_plane = named_planes(options.control_plane or ())
    except ValueError as error:
        misused(f"{str(error)[:1].upper()}{str(error)[1:]}")
