"""Selectors: literals, identifiers, operators, three-valued logic, and what is refused."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, entry, mutant, value

__all__ = ["MUTANTS"]

_S = "pyjms.spi.selector."
_WRITER = _S + "compile:_Writer."
_BUILD = _S + "parse:_Builder."
_CHECK = _S + "check:_Checker."
_CLASSIFY = _S + "parse:_classify"
_LITERALS = _S + "lexical:"

MUTANTS = (
    mutant(
        "3.8.1.1-c 5.8-a 6.11-b",
        "selectors are ignored",
        edit(_S + "compile:compile_condition", "return matches, fails", "return (lambda _: True), fails"),
    ),
    mutant(
        "3.8.1.1-b",
        "an empty selector is refused",
        edit(_S + "selector:selector_or_none", "if text else None", "if text is not None else None"),
        edit(_S + "selector:_compile", "if text:", "if True:"),
    ),
    mutant(
        "3.8.1.1-d", "a doubled quote stays doubled", edit(_LITERALS + "parse_string", '.replace("\'\'", "\'")', "")
    ),
    mutant(
        "3.8.1.1-e",
        "whole numbers beyond an int are refused",
        edit(
            _LITERALS + "_parse_whole",
            "if not Long.minimum <= value <= Long.maximum:",
            "if not Int.minimum <= value <= Int.maximum:",
        ),
    ),
    mutant("3.8.1.1-e", "a whole number that starts with 0 is decimal", entry(_LITERALS + "_BASES", "octal", 10)),
    mutant(
        "3.8.1.1-f",
        "approximate numbers lose their fraction",
        edit(_LITERALS + "_parse_fractional", "float(number)", "float(int(float(number)))"),
    ),
    mutant(
        "3.8.1.1-f",
        "the exponent of a number is ignored",
        edit(_LITERALS + "_parse_fractional", "float(number)", "float(number.lower().split('e')[0])"),
    ),
    mutant("3.8.1.1-g 3.8.1.1-r", "TRUE is FALSE", edit(_BUILD + "boolean", 'word.type == "TRUE"', "False")),
    mutant(
        "3.8.1.1-h",
        "identifiers may not contain a dollar sign",
        edit(_CLASSIFY, "bad = first_bad_character(token)", "bad = token.find('$') if '$' in token else None"),
    ),
    mutant(
        "3.8.1.1-h",
        "identifiers may not begin with an underscore",
        edit(_CLASSIFY, "bad = first_bad_character(token)", "bad = 0 if token[0] == '_' else None"),
    ),
    mutant(
        "3.8.1.1-i",
        "TRUE is an identifier",
        edit(_CLASSIFY, "if is_reserved(token):", "if is_reserved(token) and token.upper() != 'TRUE':"),
    ),
    mutant(
        "3.8.1.1-i",
        "NULL is an identifier",
        edit(_CLASSIFY, "if is_reserved(token):", "if is_reserved(token) and token.upper() != 'NULL':"),
    ),
    mutant(
        "3.8.1.1-j",
        "ESCAPE is an identifier",
        edit(_CLASSIFY, "if is_reserved(token):", "if is_reserved(token) and token.upper() != 'ESCAPE':"),
    ),
    mutant(
        "3.8.1.1-j",
        "BETWEEN is an identifier",
        edit(_CLASSIFY, "if is_reserved(token):", "if is_reserved(token) and token.upper() != 'BETWEEN':"),
    ),
    mutant(
        "3.8.1.1-k 3.8.1.1-ac 3.8.1.1-ad",
        "a property that is not there is the empty text",
        edit(_WRITER + "_read", '"get"), _constant(name))', '"get"), _constant(name), _constant(""))'),
    ),
    mutant(
        "3.8.1.1-l",
        "a String property is compared as the number in its text",
        edit(
            _WRITER + "_read",
            'return _call(_attribute(_name(_PROPERTIES), "get"), _constant(name))',
            "return _call(self._global(lambda all, name: int(all[name]) if str(all.get(name)).isdecimal() else all.get(name)), _name(_PROPERTIES), _constant(name))",
        ),
    ),
    mutant(
        "3.8.1.1-m",
        "identifiers are found in any case",
        edit(
            _WRITER + "_read",
            'return _call(_attribute(_name(_PROPERTIES), "get"), _constant(name))',
            "return _call(self._global(lambda all, name: {key.lower(): each for key, each in all.items()}.get(name.lower())), _name(_PROPERTIES), _constant(name))",
        ),
    ),
    mutant(
        "3.8.1.1-n",
        "the delivery mode is a number to selectors",
        edit(_S + "headers:_delivery_mode", "_DELIVERY_MODES.get(envelope.delivery_mode)", "envelope.delivery_mode"),
    ),
    mutant(
        "3.8.1.1-n",
        "an absent JMSType is the empty text to selectors",
        edit(
            _WRITER + "_read",
            "return _attribute(_name(_ENVELOPE), ATTRIBUTES[name])",
            "return _call(self._global(lambda found: '' if found is None else found), _attribute(_name(_ENVELOPE), ATTRIBUTES[name]))",
        ),
    ),
    mutant(
        "3.8.1.1-o",
        "a form feed is no white space",
        edit(_S + "parse:_parse", "try:", "if '\\f' in text:\n        raise Problem('a form feed', 0)\n    try:"),
    ),
    mutant(
        "3.8.1.1-p",
        "unknown is a match",
        edit(
            _S + "compile:compile_condition",
            "return matches, fails",
            "return (lambda envelope: not fails(envelope)), fails",
        ),
    ),
    mutant(
        "3.8.1.1-q 3.8.1.1-x 3.8.1.1-y",
        "a minus between numbers adds",
        edit(_WRITER + "_calculation", "CALCULATE[operator]", "CALCULATE['+' if operator == '-' else operator]"),
    ),
    mutant(
        "3.8.1.1-r 3.8.1.1-s 3.8.1.1-t",
        "AND is OR",
        edit(
            _WRITER + "condition",
            "ast.And() if wanted else ast.Or(), terms",
            "ast.Or() if wanted else ast.And(), terms",
        ),
    ),
    mutant(
        "3.8.1.1-s 3.8.1.1-x",
        "parentheses are refused",
        edit(_BUILD + "group", "return replace", "raise Problem('no parentheses', 0)\n    return replace"),
    ),
    mutant(
        "3.8.1.1-t",
        "OR binds tighter than AND",
        body(
            _BUILD + "disjunction",
            "last = terms[-1]\nif isinstance(last, nodes.And):\n    left = nodes.Or(terms=(*terms[:-1], last.terms[0]), start=terms[0].start, end=last.end, depth=_nest(*terms))\n    return nodes.And(terms=(left, *last.terms[1:]), start=terms[0].start, end=last.end, depth=_nest(left))\nreturn nodes.Or(terms=terms, start=terms[0].start, end=terms[-1].end, depth=_nest(*terms))",
        ),
    ),
    mutant(
        "3.8.1.1-u",
        "less or equal is less",
        edit(_BUILD + "comparison", "str(operator)", "str(operator).replace('<=', '<')"),
    ),
    mutant(
        "3.8.1.1-u",
        "unequal is equal",
        edit(_BUILD + "comparison", "str(operator)", "str(operator).replace('<>', '=')"),
    ),
    mutant(
        "3.8.1.1-ag",
        "unlike types are unequal, and that is true",
        edit(
            _WRITER + "_holds",
            'return _both(_has_type(value.first, "str"), _compare(value.again, ast.NotEq(), _constant(literal.value)))',
            "return _compare(value.first, ast.NotEq(), _constant(literal.value))",
        ),
    ),
    mutant("3.8.1.1-w", "strings can be compared by <", value(_S + "check:_UNORDERED", frozenset())),
    mutant(
        "3.8.1.1-w",
        "strings are compared without regard to case",
        edit(
            _WRITER + "_holds",
            "_compare(value.first, ast.Eq(), _constant(literal.value))",
            "_call(self._global(lambda found, wanted: str(found).lower() == wanted.lower()), value.first, _constant(literal.value))",
        ),
    ),
    mutant(
        "3.8.1.1-x",
        "arithmetic goes from left to right",
        body(
            _BUILD + "sum",
            "operands = rest[1::2]\nparts = []\nfor token, node in zip(rest[::2], operands, strict=True):\n    if isinstance(node, nodes.Arithmetic):\n        parts += [(str(token), node.first), *node.rest]\n    else:\n        parts.append((str(token), node))\nreturn nodes.Arithmetic(first=first, rest=tuple(parts), start=first.start, end=operands[-1].end, depth=_nest(first, *operands))",
        ),
    ),
    mutant(
        "3.8.1.1-ag",
        "the quotient of integers has a fraction",
        edit(
            _WRITER + "_literal",
            "return self._plain(node)",
            "node = type(node)(value=float(node.value), start=node.start, end=node.end) if type(node.value) is int else node\n    return self._plain(node)",
        ),
    ),
    mutant(
        "3.8.1.1-z",
        "BETWEEN leaves its bounds out",
        edit(_WRITER + "_in_range", "[ast.LtE(), ast.LtE()]", "[ast.Lt(), ast.Lt()]"),
        edit(
            _S + "arithmetic:between_holds",
            'HOLDS[">="](value, low) and HOLDS["<="]',
            'HOLDS[">"](value, low) and HOLDS["<"]',
        ),
    ),
    mutant("3.8.1.1-z", "NOT BETWEEN is BETWEEN", edit(_BUILD + "between", "negation is not None", "False")),
    mutant("3.8.1.1-aa", "IN looks at the first item only", edit(_BUILD + "in_", "tuple(items)", "tuple(items[:1])")),
    mutant("3.8.1.1-aa", "NOT IN is IN", edit(_BUILD + "in_", "negation is not None", "False")),
    mutant(
        "3.8.1.1-ab",
        "the wildcard _ is an underscore",
        edit(_S + "compile:_split", 'None if character == "_" else character', "character"),
    ),
    mutant("3.8.1.1-ab", "ESCAPE is ignored", edit(_S + "compile:_split", "if character == escape:", "if False:")),
    mutant("3.8.1.1-ac", "IS NULL is never true", edit(_BUILD + "is_null", "negation is not None", "True")),
    mutant("3.8.1.1-ad", "IS NOT NULL is IS NULL", edit(_BUILD + "is_null", "negation is not None", "False")),
    mutant(
        "3.8.1.1-ae 4.4.2-e 5.7-e 5.9-e 6.9-e 6.11.1-h 7.3-f 8.2.4-e",
        "a wrong selector raises JMSException",
        value("pyjms.spi.errors:InvalidSelectorError.jms_name", "JMSException"),
    ),
    mutant(
        "3.8.1.1-a 3.8.1.1-ae 4.4.2-e 5.7-e 5.9-e 6.9-e 6.11.1-h 7.3-f 8.2.4-e",
        "a wrong selector matches nothing, and nobody is told",
        edit(
            _S + "selector:_compile",
            "except RecursionError:",
            "except InvalidSelectorError:\n        matches, fails, root = (lambda _: False), (lambda _: True), Boolean(value=False, start=0, end=0)\n    except RecursionError:",
        ),
    ),
    mutant(
        "3.8.1.1-af",
        "operator words must be in capitals",
        edit(_CLASSIFY, "if is_reserved(token):", "if is_reserved(token) and token == token.upper():"),
    ),
    mutant(
        "3.8.1.2-a",
        "unknown AND false is unknown",
        edit(_WRITER + "condition", "ast.And() if wanted else ast.Or(), terms", "ast.And(), terms"),
    ),
    mutant(
        "3.8.1.2-b",
        "unknown OR true is unknown",
        edit(_WRITER + "condition", "ast.Or() if wanted else ast.And(), terms", "ast.And(), terms"),
    ),
    mutant(
        "3.8.1.2-c",
        "NOT unknown is true",
        edit(
            _WRITER + "condition",
            "return self.condition(operand, known, wanted=not wanted)",
            "return _not(self.condition(operand, known, wanted=wanted))",
        ),
    ),
    mutant(
        "3.8.1.1-v",
        "a comparison with null is false, so its opposite true",
        edit(
            _WRITER + "_decide", "return _both(not_null, _not(holds(operand.settled)))", "return _not(holds(operand))"
        ),
    ),
    mutant(
        "3.8.1.1-ah",
        "a number too large for a double raises KeyError",
        edit(
            _LITERALS + "_parse_fractional",
            'raise Problem(f"{shorten(text)} is too',
            'raise KeyError(f"{shorten(text)} is too',
        ),
    ),
)
