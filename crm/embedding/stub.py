"""Write the stub of the resources: `python -m crm.embedding.stub`.

The part above the line GENERATED stays as it is. It needs ruff, which formats the stub. A test
fails when the stub differs from the declarations.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

from crm.embedding import CRM
from crm.embedding.signatures import Method, TypedRecord, Types, docstring, methods_of, variants

PATH = Path(__file__).with_name("attributes.pyi")
GENERATED = "# Generated from here on.\n"


def generate() -> str:
    """The text of the stub, from the declarations of the API's operations."""
    types = Types()
    classes: dict[tuple[str, ...], list[str]] = {(): []}
    for method in methods_of(CRM(sends=False).app):
        for length in range(1, len(method.path) + 1):
            path = method.path[:length]
            if path not in classes:
                classes[path] = []
                classes[path[:-1]].append(f"{path[-1]}: {_class_name(path)}")
        classes[method.path] += _definitions(method, types)
    records = [_typed_dict(name, record) for name, record in types.records.items()]
    resources = [_class(_class_name(path), lines) for path, lines in classes.items() if path]
    root = _class("ResourceAttributes", classes[()])
    written_by_hand = PATH.read_text().partition(GENERATED)[0] + GENERATED
    return _formatted("\n\n".join([written_by_hand, *records, *resources, root]))


def _class_name(path: tuple[str, ...]) -> str:
    return "".join(name.capitalize() for name in path)


def _class(name: str, lines: list[str]) -> str:
    attributes_first = sorted(lines, key=lambda line: line.startswith(("def ", "@")))
    return f"class {name}:\n" + textwrap.indent("\n".join(attributes_first), "    ")


def _typed_dict(name: str, record: TypedRecord) -> str:
    lines = [f"class {name}({record.base}):"]
    if record.about:
        lines.append(f'    """{record.about}"""')
    lines += [
        f"    {key}: {kind if is_always_there else f'NotRequired[{kind}]'}"
        for key, (kind, is_always_there) in record.keys.items()
    ]
    return "\n".join(lines)


def _definitions(method: Method, types: Types) -> list[str]:
    """The method; with several bodies, an overload for each."""
    definitions = []
    about = textwrap.indent(f'"""{_wrapped(docstring(method, types))}"""', "    ")
    alternatives = [*variants(method, types)]
    for arguments, result in alternatives:
        ids = [f"{name}: int | str" for name in method.id_names]
        parameters = ["self", *ids, *(["/"] if ids else []), *(["*"] if arguments else [])]
        parameters += [
            f"{argument.name}: {argument.type}{'' if argument.is_required else ' = ...'}"
            for argument in arguments
        ]
        definition = f"def {method.name}({', '.join(parameters)}) -> {result}:\n{about}"
        definitions.append(f"@overload\n{definition}" if len(alternatives) > 1 else definition)
    return definitions


def _wrapped(text: str) -> str:
    """The lines no longer than 90 characters; a docstring of several lines ends in an own line."""
    lines = [
        textwrap.fill(line, 90, subsequent_indent="    ", break_on_hyphens=False)
        for line in text.splitlines()
    ]
    return "\n".join(lines) + ("\n" if len(lines) > 1 else "")


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PATH), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    PATH.write_text(generate())
