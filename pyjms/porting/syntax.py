"""Java sources as trees, by tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import tree_sitter_java
from tree_sitter import Language, Node, Parser, Tree

from pyjms.porting.model import Finding

COMMENTS = frozenset({"line_comment", "block_comment"})
STATEMENTS = frozenset(
    {
        "assert_statement",
        "break_statement",
        "continue_statement",
        "do_statement",
        "enhanced_for_statement",
        "explicit_constructor_invocation",
        "expression_statement",
        "field_declaration",
        "for_statement",
        "if_statement",
        "labeled_statement",
        "local_variable_declaration",
        "return_statement",
        "synchronized_statement",
        "throw_statement",
        "try_statement",
        "try_with_resources_statement",
        "while_statement",
        "yield_statement",
    }
)
"""What is counted."""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_java.language()))


def parse(source: str) -> Tree:
    """Return the tree of a source, which has errors in it where the source has."""
    return _parser().parse(source.encode())


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def text_of(node: Node) -> str:
    """Return the source of a node."""
    return (node.text or b"").decode()


def child(node: Node, name: str) -> Node | None:
    """Return the child in the field `name`, or None."""
    return node.child_by_field_name(name)


def needed(node: Node, name: str) -> Node:
    """Return the child in the field `name`, which the grammar demands."""
    found = node.child_by_field_name(name)
    assert found is not None, f"{node.type} has no {name}"
    return found


def children(node: Node) -> list[Node]:
    """Return the named children that are no comments."""
    return [each for each in node.named_children if each.type not in COMMENTS]


def has_modifier(node: Node, word: str) -> bool:
    """Return whether a declaration has a modifier, such as ``static``."""
    return any(each.type == "modifiers" and any(word == part.type for part in each.children) for each in node.children)


def statements_in(node: Node) -> int:
    """Return how many statements there are, those within others among them."""
    return sum(each.type in STATEMENTS or _is_switch(each) for each in walk(node))


def _is_switch(node: Node) -> bool:
    return (
        node.type == "switch_expression" and node.parent is not None and node.parent.type in {"block", "switch_block"}
    )


def syntax_errors(tree: Tree) -> list[Finding]:
    """Return the places where a source is no Java."""
    found = []
    if tree.root_node.has_error:
        for node in walk(tree.root_node):
            if node.type == "ERROR" or node.is_missing:
                row, column = node.start_point
                what = f"{node.type} is missing" if node.is_missing else f"this is no Java: {text_of(node)[:60]!r}"
                found.append(Finding(row + 1, column + 1, "syntax", what, "see that the source compiles, then port it"))
    return found
