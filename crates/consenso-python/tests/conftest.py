"""What several tests use."""

import pytest


@pytest.fixture
def two_files(tmp_path):
    """A folder with two CSV files and the public schema of both."""
    rows = "\n".join(f"{i % 100},{'yes' if i % 100 > 50 else 'no'}" for i in range(2000))
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("age,ill\n" + rows + "\n")
    (tmp_path / "schema.toml").write_text(
        'reviewed = true\n[[column]]\nname = "age"\nkind = "numeric"\nmin = 0\nmax = 100\n'
        '[[column]]\nname = "ill"\nkind = "label"\nclasses = ["no", "yes"]\n'
    )
    return tmp_path
