"""Converts a kernel's text to a Python function of an emulated machine, by transforming its AST.

NumPy's scalars follow other type rules than Numba's compiler, so operators become functions that
follow Numba's rules and reject operands of different dtypes, which a printed kernel must not have.
The function yields at operations that synchronise threads (`barrier`, `shuffle_down`, ...).
"""

import ast
import math
from types import SimpleNamespace

import numpy as np

from functrans.emit.cuda.names import TABLE
from tests.emit.cuda.emulated_memory import Memory, Mistake
from tests.emit.cuda.meanings import EXCHANGES, MATRICES, MEANINGS, meanings

FILENAME = "<kernel>"
WAITING = {"barrier", "warp_barrier", *EXCHANGES, *MATRICES}
PLACES = {"shared", "local", "dynamic_shared"}


def compiled(source, machine):
    """The kernel that a source defines, and whether it waits: whether it is a generator."""
    tree = ast.parse(source)
    [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    writer = _Writer()
    module = ast.fix_missing_locations(writer.visit(tree))
    scope = {**_namespace(machine), **writer.constants}
    exec(compile(module, FILENAME, "exec"), scope)
    return scope[function.name], writer.waits


class _Writer(ast.NodeTransformer):
    def __init__(self):
        self.constants = {}
        self.waits = False
        self.places = 0

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            return self.constant(np.bool_(node.value))
        if isinstance(node.value, int):
            wide = np.uint64 if node.value >> 63 > 0 else np.int64
            return self.constant(wide(node.value))
        if isinstance(node.value, float):
            return self.constant(np.float64(node.value))
        return node

    def constant(self, value):
        name = f"_{len(self.constants)}"
        self.constants[name] = value
        return ast.Name(name, ast.Load())

    def visit_BinOp(self, node):
        return call(f"_{type(node.op).__name__}", self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node):
        negative = isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
        if negative:
            return self.visit(ast.Constant(-node.operand.value))
        return call(f"_{type(node.op).__name__}", self.visit(node.operand))

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        parts = [
            call(f"_{type(op).__name__}", self.visit(left), self.visit(right))
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)

    def visit_BoolOp(self, node):
        return ast.BoolOp(node.op, [truth(self.visit(value)) for value in node.values])

    def visit_IfExp(self, node):
        self.generic_visit(node)
        node.test = truth(node.test)
        return node

    visit_If = visit_While = visit_IfExp

    def visit_AugAssign(self, node):
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        target = self.visit(node.target)
        value = call(f"_{type(node.op).__name__}", self.visit(read), self.visit(node.value))
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else None
        arguments = [self.visit(argument) for argument in node.args]
        if name in WAITING:
            self.waits = True
            request = [ast.Constant(name), ast.Constant(node.lineno), *arguments]
            return ast.Yield(ast.Tuple(request, ast.Load()))
        if name in PLACES:
            self.places += 1
            return ast.Call(node.func, [ast.Constant(self.places), *arguments], [])
        return ast.Call(self.visit(node.func), arguments, [])


def call(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def truth(node):
    return call("_truth", node)


# ---- operators, by Numba's rules -----------------------------------------------------------------

WIDENED = {
    np.dtype(name).type: np.int64 if name.startswith("i") else np.uint64
    for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
}
"""What integers become in arithmetic: it is done in 64 bits."""


def _same(symbol, x, y):
    # (C has two types of 64 bits, and so has NumPy for int64: they are the same dtype)
    alike = isinstance(x, np.generic) and isinstance(y, np.generic) and x.dtype == y.dtype
    if not alike:
        raise Mistake(f"operands of {symbol} are {described(x)} and {described(y)}")


def described(x):
    return x.dtype.name if isinstance(x, np.generic) else type(x).__name__


def arithmetic(symbol, function, kinds):
    def operator(x, y):
        _same(symbol, x, y)
        if x.dtype.kind not in kinds:
            raise Mistake(f"{symbol} is not for {described(x)}")
        wide = WIDENED.get(type(x))
        return function(x, y) if wide is None else function(wide(x), wide(y))

    return operator


def comparison(symbol, function):
    def operator(x, y):
        _same(symbol, x, y)
        return function(x, y)

    return operator


def _negative(x):
    if x.dtype.kind == "b":
        raise Mistake("- is not for bool")
    return -WIDENED.get(type(x), type(x))(x)


def _inverse(x):
    if x.dtype.kind not in "iu":
        raise Mistake(f"~ is not for {described(x)}")
    return ~WIDENED.get(type(x), type(x))(x)


def _truth(x):
    if type(x) is not np.bool_:
        raise Mistake(f"a condition is {described(x)}, and not bool")
    return x


def _range(*bounds):
    for bound in bounds:
        if type(bound) is not np.int64:
            raise Mistake(f"the bound of a range is {described(bound)}, and not int64")
    return map(np.int64, range(*map(int, bounds)))


def _converter(dtype):
    def convert(x):
        if not isinstance(x, np.generic):
            raise Mistake(f"{dtype} of {described(x)}")
        if x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
            raise Mistake(f"{dtype} of {described(x)}: out of range it is undefined; use as_int64")
        return x.astype(dtype)

    return convert


def _square_root(x):
    if x.dtype.kind != "f":
        raise Mistake(f"math.sqrt of {described(x)}")
    return np.sqrt(x)


_ARITHMETIC = {
    "Add": ("+", lambda x, y: x + y, "iuf"),
    "Sub": ("-", lambda x, y: x - y, "iuf"),
    "Mult": ("*", lambda x, y: x * y, "iuf"),
    "Div": ("/", lambda x, y: x / y, "f"),
    "FloorDiv": ("//", lambda x, y: x // y, "iu"),
    "Mod": ("%", lambda x, y: x % y, "iu"),
    "BitAnd": ("&", lambda x, y: x & y, "biu"),
    "BitOr": ("|", lambda x, y: x | y, "biu"),
    "BitXor": ("^", lambda x, y: x ^ y, "biu"),
    "LShift": ("<<", lambda x, y: x << y, "iu"),
    "RShift": (">>", lambda x, y: x >> y, "iu"),
}
_COMPARISONS = {
    "Lt": ("<", lambda x, y: x < y),
    "LtE": ("<=", lambda x, y: x <= y),
    "Gt": (">", lambda x, y: x > y),
    "GtE": (">=", lambda x, y: x >= y),
    "Eq": ("==", lambda x, y: x == y),
    "NotEq": ("!=", lambda x, y: x != y),
}
_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64",
)  # fmt: skip
_OPERATORS = {
    **{f"_{name}": arithmetic(*row) for name, row in _ARITHMETIC.items()},
    **{f"_{name}": comparison(*row) for name, row in _COMPARISONS.items()},
    "_USub": _negative,
    "_Invert": _inverse,
    "_Not": lambda x: ~_truth(x),
    "_truth": _truth,
    "abs": abs,
    "range": _range,
    "np": SimpleNamespace(**{name: _converter(name) for name in _DTYPES}),
    "math": SimpleNamespace(inf=np.float64(math.inf), nan=np.float64(math.nan), sqrt=_square_root),
}


def _namespace(machine):
    found = {
        name: checked(name, function) if name in MEANINGS else function
        for name, function in meanings(machine).items()
    }
    return {"__builtins__": {}, **_OPERATORS, **found}


def checked(name, function):
    """A function that takes the operands only that the compiler would take for it."""
    rule, known = TABLE[name].rule, set()

    def call(*operands):
        kinds = tuple([x.kind if type(x) is Memory else type(x) for x in operands])
        if kinds not in known:
            texts = [kind if isinstance(kind, str) else np.dtype(kind).name for kind in kinds]
            if rule(*texts) is None:
                raise Mistake(f"{name}({', '.join(texts)}) is not defined")
            known.add(kinds)
        return function(*operands)

    return call
