from silver.changelog.key_changes import roots


def test_a_chain_ends_at_the_insert_that_is_no_link() -> None:
    links = {("4", 0): "3", ("3", 0): "2", ("2", 0): "1"}
    assert roots(links) == {("4", 0): "1", ("3", 0): "1", ("2", 0): "1"}


def test_each_column_has_chains_of_its_own() -> None:
    assert roots({("3", 0): "2", ("3", 1): "1", ("2", 1): "0"}) == {
        ("3", 0): "2",
        ("3", 1): "1",
        ("2", 1): "0",
    }
