"""Java is asked once where a function is, and not at every use.

Whenever PySpark builds a column it looks the Java function up by name, in two calls beside the one
that uses it; a decoder is a thousand columns. py4j's views of Java keep what they have found.
"""

import functools
from collections.abc import Callable

from py4j.java_gateway import JavaClass, JavaMember, JVMView

LookUp = Callable[[object, str], object]
_LOOK_UP = "__getattr__"


def remember_functions() -> None:
    """Lets this process's views of Java keep the classes and functions that they find."""
    for view, kept in ((JVMView, JavaClass), (JavaClass, JavaMember)):
        look_up: LookUp = getattr(view, _LOOK_UP)
        if not hasattr(look_up, "__wrapped__"):
            setattr(view, _LOOK_UP, _remembering(look_up, kept))


def _remembering(look_up: LookUp, kept: type[object]) -> LookUp:
    @functools.wraps(look_up)
    def found(view: object, name: str) -> object:
        value = look_up(view, name)
        if isinstance(value, kept):
            vars(view)[name] = value
        return value

    return found
