"""What tests of every room share."""

import pytest


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Say which promises of the seeds a test proves; `tests/requirements.py` lists them."""
    return pytest.mark.requirement(*ids)
