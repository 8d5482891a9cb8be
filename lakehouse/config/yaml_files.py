"""Read a YAML file: a key that appears twice is an error, where PyYAML would keep the last."""

from pathlib import Path
from typing import Any

import yaml

from lakehouse.errors import ConfigurationError


class _UniqueKeys(yaml.SafeLoader):
    """SafeLoader that refuses a mapping with the same key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping; raises a MarkedYAMLError at the second of two equal keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                problem = f"the key {key.value} a second time"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> object:
    """The document in a file.

    Raises:
        ConfigurationError: the file cannot be read or is not YAML; the key is the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.load(text, Loader=_UniqueKeys)
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark
        line = f"line {mark.line + 1}" if mark else "(file)"
        found = str(failure.problem)
        raise ConfigurationError(str(path), line, found, "YAML", "correct the line") from failure
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as failure:
        expected, action = "a readable file of UTF-8 text", "mend or remove the file"
        raise ConfigurationError(str(path), "(file)", str(failure), expected, action) from failure
