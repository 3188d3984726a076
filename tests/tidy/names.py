"""What a name in a module stands for: `sleep` after ``from time import sleep`` is ``time.sleep``."""

from __future__ import annotations

import ast


class Names:
    """The imports of one module, and the dotted names that its expressions stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._origins: dict[str, str] = {}
        self.imported: list[tuple[str, int]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._add_import(node)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                self._add_import_from(node, node.module)

    def _add_import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported.append((alias.name, node.lineno))
            origin = alias.name if alias.asname else alias.name.partition(".")[0]
            self._origins[alias.asname or origin] = origin

    def _add_import_from(self, node: ast.ImportFrom, module: str) -> None:
        for alias in node.names:
            self.imported.append((f"{module}.{alias.name}", node.lineno))
            self._origins[alias.asname or alias.name] = f"{module}.{alias.name}"

    def dotted(self, node: ast.expr) -> str | None:
        """Return the full name of ``a.b.c``, or None for any other expression."""
        if isinstance(node, ast.Name):
            return self._origins.get(node.id, node.id)
        if isinstance(node, ast.Attribute) and (owner := self.dotted(node.value)):
            return f"{owner}.{node.attr}"
        return None
