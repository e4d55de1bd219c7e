"""The error tree: every code of the public contract has its class."""

from switchboard.catalog import errors
from switchboard.catalog.errors import CODES, SwitchboardError


def all_classes(root: type[SwitchboardError]) -> list[type[SwitchboardError]]:
    return [root, *(found for child in root.__subclasses__() for found in all_classes(child))]


def test_every_code_of_the_contract_has_a_class_and_every_class_a_code() -> None:
    """Nothing can be refused with a code that clients do not know."""
    classes = [found for found in all_classes(SwitchboardError) if found is not SwitchboardError]

    assert {found.code for found in classes} == set(CODES)
    assert len(CODES) == 15


def test_the_drawing_of_the_tree_names_every_class() -> None:
    """The picture at the top of the file is the tree."""
    drawing = errors.__doc__ or ""

    assert [found.__name__ for found in all_classes(SwitchboardError) if f" {found.__name__}" not in drawing] == []
