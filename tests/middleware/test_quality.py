"""What quality of service a subscription may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from middleware.errors import DistcedError
from middleware.quality import QualityOfService


@pytest.mark.parametrize("decomposition", ["none", "full", "for-reuse"])
def test_decompositions(decomposition: Any) -> None:
    assert QualityOfService(decomposition=decomposition).decomposition == decomposition


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"decomposition": "some"}, "decomposition: some"),
        ({"decomposition": "full", "detection": "best-effort"}, "guaranteed detection only"),
        ({"detection": "perhaps"}, "detection: perhaps"),
        ({"matches": "last"}, "matches: last"),
    ],
)
def test_what_cannot_be_asked_for(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(DistcedError, match=problem):
        QualityOfService(**asked)
