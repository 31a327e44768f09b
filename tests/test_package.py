def test_import() -> None:
    import seal

    assert seal.__version__
