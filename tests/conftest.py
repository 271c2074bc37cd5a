import os
from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real pilots and other tools' files, which lie beside the repository; CI must have them."""
    if not SHARED_DATA.is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{SHARED_DATA} is missing")
    return SHARED_DATA
