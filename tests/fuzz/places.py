"""Holders of closed-over arrays, each with the statements that change it.

Text with ``{n}``, the number of the place in a module; ``new()`` gives an array of N numbers and
``num()`` a number (`tests.fuzz.captured`).
"""

from typing import NamedTuple


class Place(NamedTuple):
    """Something that holds arrays: how it is made, read (an array of N numbers), and changed."""

    setup: str
    read: str
    changes: tuple[str, ...]


MODEL = """
class C{n}:
    offset = new()
    scale = 1.5
    def __init__(self):
        self.w = new()
        self.b = num()
        self.parts = [new(), {{"w": new()}}]
"""


def instance(methods: str, read: str, *more: str) -> Place:
    """An instance with an array ``w``, a number ``b``, containers, and an array of its class."""
    return Place(
        MODEL + methods + "\nm{n} = C{n}()",
        read,
        (
            "m{n}.w = new()",
            "m{n}.w[rng.integers(N)] = num()",
            "m{n}.w *= num()",
            "m{n}.w -= 0.01 * new()",
            "m{n}.b = num()",
            "m{n}.parts[0] = new()",
            "m{n}.parts[1]['w'][:] = new()",
            "C{n}.offset = new()",
            "C{n}.offset[0] = num()",
            "m{n} = C{n}()",
            "m{n}.__dict__['w'] = new()",
            *more,
        ),
    )


ALL = "self.w * self.b + self.parts[0] + self.parts[1]['w'] + self.offset"
PLACES = {
    "global": Place("w{n} = new()", "w{n}", ("w{n} = new()", "w{n}[1] = num()", "w{n} += 0.1")),
    "global by globals()": Place(
        "w{n} = new()", "globals()['w{n}']", ("w{n} = new()", "w{n}[1] = num()")
    ),
    "cell": Place(
        """
def make{n}():
    w, b = new(), num()
    def read(): return w * b
    def write(v):
        nonlocal w
        w = v
    def scale(v):
        nonlocal b
        b = v
    def part(v): w[0] = v
    return read, write, scale, part
read{n}, write{n}, scale{n}, part{n} = make{n}()
""",
        "read{n}()",
        ("write{n}(new())", "scale{n}(num())", "part{n}(num())"),
    ),
    "default": Place(
        "w{n} = new()\ndef read{n}(w=w{n}, *, v=w{n} + 1): return w * v",
        "read{n}()",
        ("w{n}[0] = num()", "read{n}.__defaults__ = (new(),)",
         "read{n}.__kwdefaults__['v'][0] = 2.0"),
    ),
    "function attribute": Place(
        "def read{n}(): return read{n}.w\nread{n}.w = new()",
        "read{n}()",
        ("read{n}.w = new()", "read{n}.w[0] = num()"),
    ),
    "list": Place(
        "l{n} = [new(), new()]",
        "sum(l{n})",
        ("l{n}[0] = new()", "l{n}[1][0] = num()", "l{n}.append(new())", "l{n}.reverse()",
         "l{n} = [new()]", "l{n}[:] = [new(), new(), new()]"),
    ),
    "list by a negative index": Place(
        "l{n} = [new(), new()]", "l{n}[-1]", ("l{n}.append(new())", "l{n}[-1][0] = num()")
    ),
    "dict": Place(
        "d{n} = {{'a': new(), 'b': [new()], 'k': 'a'}}",
        "d{n}[d{n}['k']] + d{n}['b'][0]",
        ("d{n}['a'] = new()", "d{n}['b'][0][0] = num()", "d{n}['b'] = (new(),)",
         "d{n}.update(a=new())", "d{n}['c'] = new(); d{n}['k'] = 'c'"),
    ),
    "dict's items": Place(
        "d{n} = {{'a': new()}}",
        "sum(v for _, v in sorted(d{n}.items()))",
        ("d{n}['a'] = new()", "d{n}['z'] = new()", "d{n}['a'][0] = num()", "d{n}.pop('z', None)"),
    ),
    "deque": Place(
        "q{n} = collections.deque([new(), new()], maxlen=2)",
        "q{n}[0] - q{n}[-1]",
        ("q{n}.append(new())", "q{n}.rotate()", "q{n}[0][0] = num()"),
    ),
    "named tuple": Place(
        "T{n} = collections.namedtuple('T{n}', 'w b')\nt{n} = T{n}(new(), new())",
        "t{n}.w + t{n}.b",
        ("t{n} = t{n}._replace(w=new())", "t{n}.b[0] = num()", "t{n} = T{n}(*t{n}[::-1])"),
    ),
    "namespace": Place(
        "s{n} = types.SimpleNamespace(a=types.SimpleNamespace(w=new()))",
        "s{n}.a.w",
        ("s{n}.a.w = new()", "s{n}.a = types.SimpleNamespace(w=new())", "s{n}.a.w[0] = num()"),
    ),
    "module": Place(
        "mod{n} = types.ModuleType('mod{n}')\nmod{n}.w = new()",
        "mod{n}.w",
        ("mod{n}.w = new()", "mod{n}.w[0] = num()"),
    ),
    "frozen dataclass": Place(
        "@dataclasses.dataclass(frozen=True)\nclass D{n}:\n    w: object\n    b: float = 2.0\n"
        "d{n} = D{n}(new())",
        "d{n}.w * d{n}.b",
        ("d{n} = D{n}(new())", "d{n}.w[0] = num()", "d{n} = dataclasses.replace(d{n}, b=num())",
         "object.__setattr__(d{n}, 'w', new())"),
    ),
    "slots": Place(
        "class S{n}:\n    __slots__ = ('w',)\n    def read(self): return self.w\n"
        "s{n} = S{n}(); s{n}.w = new()",
        "s{n}.read()",
        ("s{n}.w = new()", "s{n}.w[0] = num()", "s{n} = S{n}(); s{n}.w = new()"),
    ),
    "attribute": instance("", "m{n}.w * m{n}.b"),
    "method": instance(f"    def fwd(self): return {ALL}", "m{n}.fwd()"),
    "call": instance(f"    def __call__(self): return {ALL}", "m{n}()"),
    "call by super": instance(
        f"    def __call__(self): return {ALL}\nclass D{{n}}(C{{n}}):\n"
        "    def __call__(self): return super().__call__() * 2\nE{n} = C{n}\n",
        "m{n}()", "m{n} = D{n}()",
    ),
    "property": instance(f"    @property\n    def p(self): return {ALL}", "m{n}.p"),
    "index": instance(f"    def __getitem__(self, i): return ({ALL}) * i", "m{n}[2]"),
    "iteration": instance(
        f"    def __iter__(self): yield self.w; yield {ALL}", "sum(v for v in m{n})"
    ),
    "matmul": instance(f"    def __matmul__(self, x): return ({ALL}) * x", "(m{n} @ np.ones(N))"),
    "radd": instance(f"    def __add__(self, x): return ({ALL}) * x", "(m{n} + 2.0)"),
    "array": instance(
        "    def __array__(self, dtype=None, copy=None): return np.array(self.w + self.parts[0])",
        "np.asarray(m{n})",
    ),
    "length": instance(
        f"    def __len__(self): return 2\n    def __contains__(self, x): return True\n"
        f"    def read(self): return ({ALL}) * len(self)", "m{n}.read()",
    ),
    "getattr": instance("", "getattr(m{n}, 'w') + getattr(m{n}, 'no', m{n}.parts[0])"),
    "vars": instance("", "vars(m{n})['w'] * vars(m{n})['b']"),
    "attrgetter": instance("", "operator.attrgetter('w')(m{n})"),
    "methodcaller": instance(
        f"    def fwd(self): return {ALL}", "operator.methodcaller('fwd')(m{n})"
    ),
    "__getattr__": instance(
        f"    def fwd(self): return {ALL}\n"
        "class Proxy{n}:\n    def __init__(self, inner): self.inner = inner\n"
        "    def __getattr__(self, name):\n"
        "        if name.startswith('__'): raise AttributeError(name)\n"
        "        return getattr(self.inner, name)\n",
        "Proxy{n}(m{n}).fwd() + p{n}.fwd()",
        "p{n}.inner = C{n}()", "p{n}.inner.w[0] = num()",
    )._replace(),
    "partial": instance(
        f"    def fwd(self, k): return ({ALL}) * k", "functools.partial(m{n}.fwd, 2.0)()"
    ),
    "partial kept": Place(
        "def g{n}(w, k): return w * k\np{n} = functools.partial(g{n}, new(), k=2.0)",
        "p{n}()",
        ("p{n}.args[0][0] = num()", "p{n} = functools.partial(g{n}, new(), k=num())",
         "p{n}.keywords['k'] = num()"),
    ),
    "static method": Place(
        "g{n} = new()\nclass S{n}:\n    @staticmethod\n    def read(): return g{n}\n"
        "    @classmethod\n    def own(cls): return cls.w + g{n}\n    w = new()",
        "S{n}.read() + S{n}().own()",
        ("g{n} = new()", "g{n}[0] = num()", "S{n}.w = new()", "S{n}.w[0] = num()"),
    ),
    "nested models": Place(
        "class L{n}:\n    def __init__(self): self.w = new()\n"
        "    def __call__(self, x): return self.w * x\n"
        "layers{n} = [L{n}(), L{n}()]\nnets{n} = {{'a': layers{n}}}",
        "sum([l(1.0) for l in layers{n}]) + nets{n}['a'][0](2.0)",
        ("layers{n}[0].w = new()", "layers{n}[1].w[0] = num()", "layers{n}.append(L{n}())",
         "nets{n}['a'] = [L{n}()]", "layers{n}[0] = L{n}()",
         "layers{n}[0].w, layers{n}[1].w = layers{n}[1].w, layers{n}[0].w"),
    ),
    "shared": Place(
        "a{n} = new(); h{n} = [a{n}, {{'x': a{n}}}]",
        "a{n} + h{n}[0] * h{n}[1]['x']",
        ("a{n}[0] = num()", "a{n} = new()", "h{n}[0] = new()", "h{n}[1]['x'] = h{n}[0]",
         "h{n}[1] = {{'x': a{n}}}", "h{n}[0][1] = num()"),
    ),
    "view": Place(
        "base{n} = new(2 * N); v{n} = base{n}[::2]; t{n} = new(2 * N).reshape(2, N).T",
        "v{n} + base{n}[N:] + t{n}[:, 1]",
        ("base{n}[0] = num()", "v{n}[1] = num()", "base{n} = new(2 * N)", "v{n} = base{n}[1::2]",
         "t{n}[0, 1] = num()"),
    ),
    "0-d": Place(
        "z{n} = np.array(1.5)", "z{n} * np.ones(N)", ("z{n}[...] = num()", "z{n} = np.array(num())")
    ),
    "number": Place(
        "z{n} = 1.5", "z{n} * np.ones(N)", ("z{n} = num()", "z{n} = np.float64(num())")
    ),
    "integers": Place(
        "i{n} = np.arange(N)[::-1].copy(); w{n} = new()",
        "w{n}[i{n}]",
        ("i{n}[:] = rng.permutation(N)", "i{n} = rng.permutation(N)", "w{n}[0] = num()"),
    ),
    "mask": Place(
        "k{n} = np.arange(N) % 2 == 0; w{n} = new()",
        "np.where(k{n}, w{n}, 1.0)",
        ("k{n}[0] = ~k{n}[0]", "k{n} = ~k{n}", "w{n}[1] = num()"),
    ),
    "asked for": Place(
        "n{n} = np.array([2.0, 1.0]); w{n} = new()",
        "(w{n} * int(n{n}[0]) if n{n}[1] > 0 else -w{n})",
        ("n{n}[0] = rng.integers(1, 4)", "n{n}[1] = -n{n}[1]", "w{n}[0] = num()",
         "n{n} = np.array([1.0, 1.0])"),
    ),
    "other types": Place(
        "w{n} = new()",
        "(w{n} + np.zeros(N))",
        ("w{n} = new().astype(np.float32)", "w{n} = np.ones(1)", "w{n} = 2.0", "w{n} = new()",
         "w{n} = np.arange(N)", "w{n} = new()[None]; w{n} = w{n}[0]", "w{n} = list(new())"),
    ),
    "sparse": Place(
        "S{n} = scipy.sparse.csr_array(np.diag(new()))",
        "(S{n} @ np.ones(N)) + S{n}.toarray()[0]",
        ("S{n}.data[0] = num()", "S{n}.data *= num()",
         "S{n} = scipy.sparse.csr_array(np.diag(new()))"),
    ),
    "spline": Place(
        "xs{n} = np.arange(5.0); sp{n} = scipy.interpolate.CubicSpline(xs{n}, new(5))",
        "sp{n}(np.linspace(0, 4, N))",
        ("sp{n} = scipy.interpolate.CubicSpline(xs{n}, new(5))", "sp{n}.c[0, 0] = num()",
         "sp{n}.c[:, 1] *= 1.5"),
    ),
    "closure over an object": instance(
        f"    def __call__(self): return {ALL}\n"
        "def make{n}(m):\n    def read(): return m()\n    return read\n",
        "make{n}(m{n})()",
    ),
    "wrapped": instance(
        f"    def fwd(self): return {ALL}\n"
        "def deco{n}(f):\n    @functools.wraps(f)\n    def wrapper(): return f() * k{n}\n"
        "    return wrapper\n"
        "k{n} = new()\n",
        "deco{n}(m{n}.fwd)()",
        "k{n} = new()", "k{n}[0] = num()",
    ),
    "registry": Place(
        "table{n} = {{'f': [lambda: v{n}, lambda: v{n} * 2]}}; v{n} = new()",
        "table{n}['f'][0]() + table{n}['f'][-1]()",
        ("v{n} = new()", "v{n}[0] = num()", "table{n}['f'].append(lambda: v{n} * 3)",
         "table{n}['f'][0] = lambda: v{n} + 1"),
    ),
    "descriptor": Place(
        "class Field{n}:\n    def __set_name__(self, owner, name): self.name = '_' + name\n"
        "    def __get__(self, o, t=None): return self if o is None else getattr(o, self.name)\n"
        "    def __set__(self, o, v): setattr(o, self.name, v)\n"
        "class H{n}:\n    w = Field{n}()\nh{n} = H{n}(); h{n}.w = new()",
        "h{n}.w",
        ("h{n}.w = new()", "h{n}.w[0] = num()", "h{n}._w = new()"),
    ),
    "cached property": Place(
        "class H{n}:\n    def __init__(self): self.raw = new()\n"
        "    @functools.cached_property\n    def w(self): return self.raw + 1\nh{n} = H{n}()",
        "h{n}.w",
        ("h{n} = H{n}()", "h{n}.w; h{n}.w[0] = num()", "h{n}.__dict__['w'] = new()"),
    ),
    "dictionary class": Place(
        "class P{n}(dict):\n    __getattr__ = dict.__getitem__\n"
        "p{n} = P{n}(w=new(), b=P{n}(w=new()))",
        "p{n}.w + p{n}.b.w",
        ("p{n}['w'] = new()", "p{n}['b']['w'][0] = num()", "p{n}['b'] = P{n}(w=new())"),
    ),
    "list class": Place(
        "class Q{n}(list):\n    def total(self): return sum(self) * self.k\n"
        "q{n} = Q{n}([new(), new()]); q{n}.k = 2.0",
        "q{n}.total()",
        ("q{n}[0][0] = num()", "q{n}.append(new())", "q{n}.k = num()", "q{n}[1] = new()"),
    ),
    "weak reference": Place(
        "class H{n}: pass\nh{n} = H{n}(); h{n}.w = new(); r{n} = weakref.ref(h{n})",
        "r{n}().w",
        ("h{n}.w = new()", "h{n}.w[0] = num()"),
    ),
    "object array": Place(
        "o{n} = np.empty(2, object); o{n}[0] = new(); o{n}[1] = new()",
        "o{n}[0] + o{n}[1]",
        ("o{n}[0] = new()", "o{n}[1][0] = num()"),
    ),
    "generator function": Place(
        "g{n} = [new(), new()]\ndef gen{n}():\n    for v in g{n}: yield v * 2",
        "sum(gen{n}())",
        ("g{n}[0] = new()", "g{n}[1][0] = num()", "g{n}.append(new())"),
    ),
    "counter": Place(
        "import itertools\nclass M{n}:\n    def __init__(self): self.w = new(); self.calls = 0\n"
        "    def __call__(self):\n        self.calls += 1\n        return self.w\nm{n} = M{n}()",
        "m{n}()",
        ("m{n}.w = new()", "m{n}.w[0] = num()"),
    ),
    "class replaced": Place(
        "class A{n}:\n    k = new()\n    def read(self): return self.k\n"
        "class B{n}:\n    k = new()\n    def read(self): return self.k * 3\na{n} = A{n}()",
        "a{n}.read()",
        ("a{n}.__class__ = B{n}", "a{n}.__class__ = A{n}", "A{n}.k[0] = num()", "B{n}.k = new()",
         "A{n}.read = lambda self: self.k + 7.0"),
    ),
    "thread local": Place(
        "t{n} = threading.local(); t{n}.w = new()",
        "t{n}.w",
        ("t{n}.w = new()", "t{n}.w[0] = num()"),
    ),
    "code": Place(
        "w{n} = new()\ndef read{n}(): return w{n}",
        "read{n}()",
        ("read{n}.__code__ = (lambda: w{n} * 7.0).__code__", "w{n}[0] = num()", "w{n} = new()",
         "read{n}.__code__ = (lambda: w{n} + 1.0).__code__", "read{n} = lambda: w{n} * 2"),
    ),
    "numbers as defaults": Place(
        "w{n} = new()\ndef read{n}(a=2.0, *, b=0.0): return np.copysign(w{n}, b) * a",
        "read{n}()",
        ("read{n}.__defaults__ = (num(),)", "read{n}.__kwdefaults__['b'] = -0.0", "w{n}[0] = num()",
         "read{n}.__kwdefaults__ = {{'b': 0.0}}"),
    ),
    "signs of zeros": Place(
        "z{n} = 0.0; t{n} = (1, 0.0); w{n} = new(); v{n} = np.zeros(N)",
        "np.copysign(w{n}, z{n}) * np.copysign(1, t{n}[1]) + np.copysign(w{n}, v{n})",
        ("z{n} = -z{n}", "t{n} = (1, -t{n}[1])", "v{n}[0] = -0.0", "v{n} = -v{n}",
         "w{n}[0] = num()", "z{n} = 0"),
    ),
    "memory order": Place(
        "w{n} = np.stack([new(), new()])",
        "w{n}.ravel('K')[:N]",
        ("w{n} = np.asfortranarray(w{n})", "w{n} = w{n}.copy('C')", "w{n} = w{n}.T.copy().T"),
    ),
    "chain map": Place(
        "c{n} = collections.ChainMap({{'w': new()}}, {{'w': new(), 'v': new()}})",
        "c{n}['w'] * c{n}['v']",
        ("c{n}['w'] = new()", "c{n}.maps.reverse()", "c{n}['v'] = new()", "c{n}['v'][0] = num()"),
    ),
    "fields": Place(
        "r{n} = np.zeros(N, [('w', 'f8'), ('k', 'i4')]); r{n}['w'] = new()",
        "r{n}['w'] + r{n}['k']",
        ("r{n}['w'][0] = num()", "r{n}['k'][1] = 3", "r{n}['w'] = new()", "r{n} = r{n}[::-1]"),
    ),
    "memory view": Place(
        "b{n} = bytearray(8 * N); np.frombuffer(b{n})[:] = new()",
        "np.frombuffer(b{n})",
        ("np.frombuffer(b{n})[0:1] = num()",),
    ),
    "flat iterator": Place(
        "a{n} = new(); f{n} = a{n}.flat",
        "np.array([f{n}[i] for i in range(N)])",
        ("a{n}[1] = num()", "f{n}[0] = num()", "f{n} = new().flat", "a{n}[:] = new()"),
    ),
    "inherited": Place(
        "class A{n}:\n    k = new()\nclass B{n}(A{n}): pass\nclass E{n}(B{n}): pass\n"
        "class Z{n}:\n    k = new()\ne{n} = E{n}()",
        "e{n}.k",
        ("B{n}.k = new()", "E{n}.k = new()", "B{n}.k[0] = num()", "vars(B{n}).get('k') is None or "
         "delattr(B{n}, 'k')", "vars(E{n}).get('k') is None or delattr(E{n}, 'k')",
         "B{n}.__bases__ = (Z{n},)", "B{n}.__bases__ = (A{n},)", "E{n}.__bases__ = (Z{n}, B{n})",
         "E{n}.__bases__ = (B{n}, Z{n})", "Z{n}.k = new()"),
    ),
    "builtins": Place(
        "import builtins\nbuiltins.w{n} = new()\ng{n} = 2.0\ndef read{n}():\n    try:\n"
        "        return w{n} * k{n}\n    except NameError:\n        return g{n} * np.ones(N)",
        "read{n}()",
        ("builtins.k{n} = num()", "builtins.w{n} = new()", "builtins.w{n}[0] = num()",
         "vars(builtins).pop('k{n}', None)", "g{n} = num()", "w{n} = new()"),
    ),
    "numbers with attributes": Place(
        "class F{n}(float): pass\nf{n} = F{n}(2.0); f{n}.w = new()\n"
        "def other{n}():\n    f = F{n}(2.0)\n    f.w = new()\n    return f",
        "f{n} * f{n}.w",
        ("f{n}.w = new()", "f{n}.w[0] = num()", "f{n} = other{n}()"),
    ),
    "context variable that is None": Place(
        "import contextvars\nv{n} = contextvars.ContextVar('v{n}'); w{n} = new()",
        "w{n} * (2.0 if v{n}.get(2.0) is None else 3.0)",
        ("v{n}.set(None)", "v{n}.set(4.0)", "w{n}[0] = num()"),
    ),
    "module with properties": Place(
        "class M{n}(types.ModuleType):\n    @property\n    def w(self): return self.raw * 2\n"
        "m{n} = M{n}('m{n}'); m{n}.raw = new(); s{n} = {{'k': num()}}\n"
        "m{n}.__getattr__ = lambda name: s{n}[name]",
        "m{n}.w * m{n}.k",
        ("m{n}.raw = new()", "m{n}.raw[0] = num()", "s{n}['k'] = num()", "m{n}.k = num()"),
    ),
    "relative import": Place(
        "import sys\n__package__ = 'package{n}'\nfor name in ('', '.part'):\n"
        "    module = types.ModuleType(__package__ + name)\n"
        "    module.__path__ = []\n    sys.modules[module.__name__] = module\n"
        "m{n} = module; m{n}.w = new(); sys.modules['package{n}'].part = m{n}\n"
        "sys.modules['package{n}'].k = num()\ndef read{n}():\n    from .part import w\n"
        "    from . import k\n    return w * k",
        "read{n}()",
        ("m{n}.w = new()", "m{n}.w[0] = num()", "sys.modules['package{n}'].k = num()"),
    ),
    "names in a format": Place(
        "class F{n}: pass\nf{n} = F{n}(); f{n}.scale{n} = num(); f{n}.other{n} = num()\n"
        "t{n} = '{{0.scale{n}}}'; w{n} = new()",
        "w{n} * float(t{n}.format(f{n}))",
        ("f{n}.scale{n} = num()", "t{n} = '{{0.other{n}}}'", "f{n}.other{n} = num()"),
    ),
    "record": Place(
        "r{n} = np.zeros(2, [('w', 'f8'), ('k', 'f8')])[0]; r{n}['w'] = num()\nt{n} = (r{n}, 1)\n"
        "w{n} = new()\ndef read{n}(r=r{n}): return r['k']",
        "w{n} * (r{n}['w'] + t{n}[0]['k'] + read{n}())",
        ("r{n}['w'] = num()", "r{n}['k'] = num()", "w{n}[0] = num()",
         "r{n} = np.zeros(1, r{n}.dtype)[0]"),
    ),
    "record of objects": Place(
        "r{n} = np.zeros(2, [('w', 'O'), ('k', 'f8')]); r{n}['w'][0] = [new()]; s{n} = r{n}[0]\n"
        "r{n}['k'] = num()",
        "(r{n}['w'][0][0] + s{n}['w'][0]) * r{n}['k'][1] + s{n}['k']",
        ("r{n}['w'][0][0][0] = num()", "r{n}['w'][0][0] = new()", "s{n}['w'] = [new()]",
         "r{n}['k'] = num()"),
    ),
    "names of fields": Place(
        "r{n} = np.zeros(N, [('a', 'f8'), ('b', 'f8')]); r{n}['a'] = new()",
        "r{n}['a']",
        ("r{n}.dtype.names = ('b', 'a')", "r{n}['a'] = new()", "r{n}.dtype.names = ('a', 'b')"),
    ),
    "default factory": Place(
        "w{n} = new(); d{n} = collections.defaultdict(lambda: w{n})\n"
        "kept{n} = d{n}.default_factory",
        "d{n}['k'] * d{n}.default_factory()",
        ("d{n}.clear()", "w{n}[0] = num()", "d{n}.default_factory = lambda k=num(): k",
         "d{n}.clear(); k{n} = num(); d{n}.default_factory = lambda: k{n}", "k{n} = num()"),
    ),
    "attribute that a function gets": Place(
        "w{n} = new()\ndef read{n}(): return w{n} * getattr(read{n}, 'k', 2.0) * kept{n}()\n"
        "def kept{n}():\n    try:\n        return kept{n}.k\n"
        "    except AttributeError:\n        return 2.0",
        "read{n}()",
        ("read{n}.k = num()", "kept{n}.k = num()", "w{n}[0] = num()", "read{n}.k = num()",
         "vars(kept{n}).clear()"),
    ),
    "module replaced": Place(
        "import sys\ndef load{n}():\n    sys.modules['m{n}'] = module = types.ModuleType('m{n}')\n"
        "    module.w = new()\n    return module\nkept{n} = [load{n}()]\n"
        "def read{n}():\n    import m{n}\n    from m{n} import w\n    return w * m{n}.w",
        "read{n}()",
        ("kept{n}.append(load{n}())", "sys.modules['m{n}'].w[0] = num()",
         "sys.modules['m{n}'] = kept{n}[0]"),
    ),
    "module that comes": Place(
        "import sys\nw{n} = new()\ndef read{n}():\n    try:\n        import late{n}\n"
        "    except ImportError:\n        return w{n}\n    return late{n}.w",
        "read{n}()",
        ("w{n}[0] = num()", "sys.modules['late{n}'] = types.SimpleNamespace(w=new())",
         "sys.modules['late{n}'].w[0] = num()", "del sys.modules['late{n}']"),
    ),
    "ufunc of a function": Place(
        "k{n} = num(); w{n} = new(); u{n} = np.frompyfunc(lambda a: a * k{n}, 1, 1)",
        "w{n} * float(u{n}(2.0))",
        ("k{n} = num()", "w{n}[0] = num()"),
    ),
    "class without a module": Place(
        "g{n} = {{}}\nexec('class A:\\n    def read(self): return self.w * k', g{n})\n"
        "g{n}['k'] = num(); a{n} = g{n}['A'](); a{n}.w = new()",
        "a{n}.read()",
        ("g{n}['k'] = num()", "a{n}.w = new()", "a{n}.w[0] = num()",
         "g{n}['A'].read = lambda self: self.w"),
    ),
}  # fmt: skip
PLACES["__getattr__"] = PLACES["__getattr__"]._replace(
    setup=PLACES["__getattr__"].setup + "\np{n} = Proxy{n}(C{n}())"
)
