"""Finds tests that expect an error of ours but not what it says: they pass for any other error of its class, too."""

import ast
import importlib
from collections.abc import Iterator, Mapping


def unread_errors(source: str) -> list[tuple[int, str]]:
    """Where a test module expects an error class of hermesops with neither ``match=`` nor a look at the error.

    A look is ``with pytest.raises(RefusedError) as refused`` where the same function reads ``refused.value``.

    Args:
        source: The module's text.

    Returns:
        Line number and text of each such call.
    """
    if "raises(" not in source or "hermesops" not in source:
        return []
    tree, lines = ast.parse(source), source.splitlines()
    tops = [inner for node in tree.body for inner in (node.body if isinstance(node, ast.ClassDef) else [node])]
    # Walking takes much longer than reading: most functions expect nothing.
    expecting = [top for top in tops if any("raises(" in line for line in lines[top.lineno - 1 : top.end_lineno])]
    imported = dict(_imported(tree)) if expecting else {}
    return [(call.lineno, ast.unparse(call)) for top in expecting for call in _unread(top, imported)]


def _imported(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """What a module imports from hermesops, by its name there."""
    for node in _imports(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "hermesops":
            for alias in node.names:
                yield alias.asname or alias.name, _imported_from(str(node.module), alias.name)


def _imports(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module and of its functions and blocks."""
    left: list[ast.stmt] = list(tree.body)
    while left:
        node = left.pop(0)
        yield node
        for part in ("body", "orelse", "finalbody"):
            left += [inner for inner in getattr(node, part, ()) if isinstance(inner, ast.stmt)]


def _imported_from(module: str, name: str) -> object:
    attribute = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(f"{module}.{name}") if attribute is None else attribute


def _unread(top: ast.stmt, imported: Mapping[str, object]) -> Iterator[ast.Call]:
    nodes = list(ast.walk(top))
    values = [node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr == "value"]
    read = {node.id for node in values if isinstance(node, ast.Name)}
    items = [item for node in nodes if isinstance(node, ast.With | ast.AsyncWith) for item in node.items]
    looked_at = {item.context_expr for item in items if item.optional_vars and ast.unparse(item.optional_vars) in read}
    # A parametrised test names the class by a parameter: its annotation says whose it is.
    typed = {node.arg: node.annotation for node in nodes if isinstance(node, ast.arg) and node.annotation}
    for node in nodes:
        if _is_expectation(node):
            assert isinstance(node, ast.Call)
            has_match = any(keyword.arg == "match" for keyword in node.keywords)
            if not has_match and node not in looked_at and _is_ours(node.args[0], imported, typed):
                yield node


def _is_expectation(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="raises")):
            return True
        case ast.Call(func=ast.Attribute(attr="raises", value=ast.Name(id="pytest"))):
            return True
    return False


def _is_ours(expected: ast.expr, imported: Mapping[str, object], typed: Mapping[str, ast.expr]) -> bool:
    """Whether one of the expected classes is an error that hermesops defines."""
    names = [node for node in ast.walk(expected) if isinstance(node, ast.Name | ast.Attribute)]
    names += [
        node for name in names for node in ast.walk(typed.get(ast.unparse(name), name)) if isinstance(node, ast.Name)
    ]
    return any(_is_our_error(_resolved(name, imported)) for name in names)


def _resolved(name: ast.expr, imported: Mapping[str, object]) -> object:
    if isinstance(name, ast.Attribute):
        return getattr(_resolved(name.value, imported), name.attr, None)
    return imported.get(name.id) if isinstance(name, ast.Name) else None


def _is_our_error(value: object) -> bool:
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    return is_error and value.__module__.partition(".")[0] == "hermesops"
