import seal


def test_version() -> None:
    assert seal.__version__ == "0.1.0"
