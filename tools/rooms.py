"""An import contract that reads like the architecture: one line a room, with what it may import and nothing else.

The contracts of import-linter say what is forbidden; ours has to say what is allowed, so that a new room or a new
import is refused until somebody has thought about it.
"""

from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

_ANYTHING = "*"


class RoomsContract(Contract):
    """Every module of the package belongs to a room, and imports only what its room's line allows."""

    package: str = cast("str", fields.StringField())
    rooms: list[str] = cast("list[str]", fields.ListField(subfield=fields.StringField()))
    pure: list[str] = cast("list[str]", fields.ListField(subfield=fields.StringField()))
    pure_may_import: list[str] = cast("list[str]", fields.ListField(subfield=fields.StringField()))

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - the base class has it so
        """Compare every import inside the package with the table."""
        allowed = self._table()
        modules = graph.find_descendants(self.package)
        wrong = sorted(
            (importer, imported)
            for importer in {self.package, *modules}
            for imported in graph.find_modules_directly_imported_by(importer)
            if not self._may(importer, imported, allowed)
        )
        unknown = sorted({self._room(module) for module in modules} - allowed.keys())
        return ContractCheck(kept=not wrong and not unknown, metadata={"wrong": wrong, "unknown": unknown})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name every import and room that the table does not have."""
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"{importer} may not import {imported}")
        for room in check.metadata["unknown"]:
            output.print_error(f"{self.package}.{room} is in no line of the table: say what it may import")

    def _table(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}
        for line in self.rooms:
            room, _, targets = line.partition("->")
            table[room.strip()] = [target.strip() for target in targets.split(",") if target.strip()]
        return table

    def _may(self, importer: str, imported: str, allowed: dict[str, list[str]]) -> bool:
        room = self._room(importer)
        if imported.partition(".")[0] != self.package:
            return room not in self.pure or imported in self.pure_may_import
        target = imported.removeprefix(f"{self.package}.")
        if self._room(imported) == room or imported == self.package:
            return True
        return any(entry in (_ANYTHING, target) or target.startswith(f"{entry}.") for entry in allowed.get(room, []))

    def _room(self, module: str) -> str:
        return module.removeprefix(f"{self.package}.").partition(".")[0]
