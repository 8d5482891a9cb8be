"""What PySpark looks up in Java is looked up once."""

from py4j.java_gateway import JavaClass, JVMView

from lakehouse.spark.session import _cache_results, remember_functions


class View:
    """Counts what it is asked for; numbers are not to be kept."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        self.asked.append(name)
        return 1 if name == "number" else name


def test_a_view_keeps_what_it_found_of_a_kind() -> None:
    class Remembering(View):
        __getattr__ = _cache_results(View.__getattr__, str)

    view, other = Remembering(), Remembering()
    assert [view.lit, view.lit, view.number, view.number] == ["lit", "lit", 1, 1]
    assert view.asked == ["lit", "number", "number"]
    assert other.asked == []


def test_the_views_of_java_remember_and_are_wrapped_once() -> None:
    remember_functions()
    wrapped = [view.__getattr__ for view in (JVMView, JavaClass)]
    assert all(hasattr(look_up, "__wrapped__") for look_up in wrapped)
    remember_functions()
    assert [view.__getattr__ for view in (JVMView, JavaClass)] == wrapped
