"""The instructions of PTX as statements of C++, in which ptx.h does what they do to the bits in registers.

An instruction that is not known here is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

# PTX's types (PTX ISA, "Fundamental Types") as C++'s. Those of bits are unsigned.
SIGNS = {"s": "", "u": "u", "b": "u"}
C = {f"{kind}{size}": f"{sign}int{size}_t" for size in (8, 16, 32, 64) for kind, sign in SIGNS.items()}
UNSIGNED = {name: f"uint{name[1:]}_t" for name in C} | {"f32": "uint32_t", "f64": "uint64_t", "pred": "bool"}
C |= {"f32": "float", "f64": "double", "pred": "bool"}
FUNCTIONS = {"tid": "thread_index", "ctaid": "block_index", "ntid": "block_size", "nctaid": "grid_size"}
SPECIAL = {f"%{name}.{axis}": f"simt::{function}().{axis}" for name, function in FUNCTIONS.items() for axis in "xyz"}
SPECIAL |= {"%laneid": "lane()", "%lanemask_lt": "((1u << lane()) - 1)"}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
OPPOSITE = {"eq": "!=", "ne": "==", "lt": ">=", "le": ">", "gt": "<=", "ge": "<"}
OPERATOR = {"add": "+", "sub": "-"}
BLOCK_OPS = {"and": "kAnd", "or": "kOr"}
PLACE = "__FILE__, __LINE__"

# An instruction, as a pattern of its name -> its result, of operands {0}, {1}, ... . <T> is its type in C++, <U> the
# unsigned one of that size, in which sums may overflow; <D> and <S> those of a conversion.
INTEGER, REAL = r"\.(?P<t>[sub](?:8|16|32|64))", r"\.(?P<t>f(?:32|64))"
RULES: dict[str, str] = {
    rf"add{INTEGER}": "as<<U>>({0}) + as<<U>>({1})",
    rf"sub{INTEGER}": "as<<U>>({0}) - as<<U>>({1})",
    rf"mul\.lo{INTEGER}": "as<<U>>({0}) * as<<U>>({1})",
    rf"mad\.lo{INTEGER}": "bits(static_cast<<U>>(as<<U>>({0}) * as<<U>>({1}) + as<<U>>({2})))",
    r"mul\.wide\.(?P<t>[su]32)": "bits(static_cast<<T64>>(as<<T>>({0})) * static_cast<<T64>>(as<<T>>({1})))",
    r"mul\.wide\.(?P<t>u16)": "bits(static_cast<uint32_t>(as<<T>>({0})) * as<<T>>({1}))",
    r"mad\.wide\.(?P<t>[su]32)": "bits(static_cast<uint64_t>(static_cast<<T64>>(as<<T>>({0})) * as<<T>>({1})) + {2})",
    r"mul\.hi\.(?P<t>[su]32)": "bits(static_cast<<T64>>(as<<T>>({0})) * as<<T>>({1}) >> 32)",
    rf"(add|sub)(\.rn)?{REAL}": "bits(as<<T>>({0}) <+> as<<T>>({1}))",
    rf"mul(\.rn)?{REAL}": "bits(as<<T>>({0}) * as<<T>>({1}))",
    rf"div\.(rn|approx){REAL}": "bits(as<<T>>({0}) / as<<T>>({1}))",
    rf"fma\.rn{REAL}": "bits(static_cast<<T>>(fma(as<<T>>({0}), as<<T>>({1}), as<<T>>({2}))))",
    rf"rcp\.rn{REAL}": "bits(<T>(1) / as<<T>>({0}))",
    r"rcp\.approx\.ftz\.(?P<t>f32)": "bits(flushed(1 / flushed(as<float>({0}))))",
    rf"sqrt\.(rn|approx){REAL}": "bits(static_cast<<T>>(sqrt(as<<T>>({0}))))",
    rf"rsqrt\.approx{REAL}": "bits(static_cast<<T>>(1 / sqrt(as<<T>>({0}))))",
    r"lg2\.approx\.(?P<t>f32)": "bits(log2f(as<float>({0})))",
    r"(?P<o>sin|cos)\.approx\.(?P<t>f32)": "bits(<o>f(as<float>({0})))",
    rf"copysign{REAL}": "bits(static_cast<<T>>(copysign(as<<T>>({1}), as<<T>>({0}))))",
    r"ex2\.approx(\.ftz)?\.(?P<t>f32)": "bits(flushed(exp2f(flushed(as<float>({0})))))",
    rf"abs{REAL}": "bits(static_cast<<T>>(fabs(as<<T>>({0}))))",
    rf"neg{REAL}": "bits(-as<<T>>({0}))",
    rf"neg{INTEGER}": "bits(static_cast<<U>>(-as<<U>>({0})))",
    rf"min{REAL}": "bits(static_cast<<T>>(fmin(as<<T>>({0}), as<<T>>({1}))))",
    rf"max{REAL}": "bits(static_cast<<T>>(fmax(as<<T>>({0}), as<<T>>({1}))))",
    rf"(?P<o>min|max){INTEGER}": "bits(std::<o>(as<<T>>({0}), as<<T>>({1})))",
    rf"div{INTEGER}": "bits(static_cast<<T>>(as<<T>>({0}) / as<<T>>({1})))",
    rf"rem{INTEGER}": "bits(static_cast<<T>>(as<<T>>({0}) % as<<T>>({1})))",
    r"and\.(?P<t>b\d+|pred)": "{0} & {1}",
    r"or\.(?P<t>b\d+|pred)": "{0} | {1}",
    r"xor\.(?P<t>b\d+|pred)": "{0} ^ {1}",
    r"not\.(?P<t>b\d+)": "~{0}",
    r"not\.(?P<t>pred)": "!{0}",
    r"shl\.(?P<t>b\d+)": "shift_left({0}, static_cast<uint32_t>({1}), sizeof(<T>) * 8)",
    rf"shr{INTEGER}": "shift_right(as<<T>>({0}), static_cast<uint32_t>({1}))",
    r"bfe\.(?P<t>[su](32|64))": "field<<T>>({0}, {1}, {2})",
    r"bfi\.(?P<t>b(32|64))": "inserted<<T>>({0}, {1}, {2}, {3})",
    r"clz\.(?P<t>b32)": "({0}) == 0 ? 32 : __builtin_clz({0})",
    r"popc\.(?P<t>b32)": "__builtin_popcount({0})",
    r"brev\.(?P<t>b32)": "reversed({0})",
    r"bfind\.shiftamt\.(?P<t>u32)": "({0}) == 0 ? ~0u : __builtin_clz({0})",
    r"prmt\.(?P<t>b32)": "permuted({0}, {1}, {2})",
    r"selp\.(?P<t>\w+)": "{2} ? {0} : {1}",
    r"mov\.(?P<t>\w+)": "{0}",
    r"cvta(\.to)?\.(global|local)\.(?P<t>u64)": "{0}",
    r"setp\.(?P<c>eq|ne|lt|le|gt|ge)\.(?P<t>\w+)": "as<<T>>({0}) <C> as<<T>>({1})",
    r"setp\.(?P<c>eq|ne|lt|le|gt|ge)u\.(?P<t>f(32|64))": "!(as<<T>>({0}) <N> as<<T>>({1}))",
    r"cvt\.rn\.(?P<d>f32|f64)\.(?P<t>[su](32|64)|f64)": "bits(static_cast<<D>>(as<<T>>({0})))",
    r"cvt\.(?P<d>f64)\.(?P<t>f32)": "bits(static_cast<double>(as<float>({0})))",
    r"cvt\.rzi\.(?P<d>[su](32|64))\.(?P<t>f32|f64)": "truncate<<D>, <T>>(as<<T>>({0}))",
    r"cvt\.rmi\.f32\.(?P<t>f32)": "bits(floorf(as<float>({0})))",
    r"cvt\.rpi\.f32\.(?P<t>f32)": "bits(ceilf(as<float>({0})))",
    r"cvt\.(?P<d>[su](16|32|64))\.(?P<t>[su](8|16|32|64))": "bits(static_cast<<D>>(as<<T>>({0})))",
    r"shfl\.sync\.bfly\.(?P<t>b32)": f"shuffle(simt::WarpOp::kShuffleXor, {{0}}, {{1}}, {{3}}, {{p}}, {PLACE})",
    r"shfl\.sync\.down\.(?P<t>b32)": f"shuffle(simt::WarpOp::kShuffleDown, {{0}}, {{1}}, {{3}}, {{p}}, {PLACE})",
    r"shfl\.sync\.up\.(?P<t>b32)": f"shuffle(simt::WarpOp::kShuffleUp, {{0}}, {{1}}, {{3}}, {{p}}, {PLACE})",
    r"shfl\.sync\.idx\.(?P<t>b32)": f"shuffle(simt::WarpOp::kShuffle, {{0}}, {{1}}, {{3}}, {{p}}, {PLACE})",
    r"vote\.sync\.ballot\.(?P<t>b32)": f"ballot({{0}}, {{1}}, {PLACE})",
    r"vote\.sync\.any\.(?P<t>pred)": f"ballot({{0}}, {{1}}, {PLACE}) != 0",
    r"vote\.sync\.all\.(?P<t>pred)": f"ballot({{0}}, {{1}}, {PLACE}) == {{1}}",
    r"activemask\.(?P<t>b32)": f"simt::active_lanes({PLACE})",
    r"match\.any\.sync\.(?P<t>b32)": f"match({{0}}, {{1}}, {PLACE})",
    r"redux\.sync\.max\.(?P<t>s32)": f"reduce(simt::WarpOp::kMaximum, {{0}}, {{1}}, {PLACE})",
    r"bar\.red\.popc\.(?P<t>u32)": f"simt::block_barrier(simt::BlockOp::kCount, {{1}}, {PLACE})",
    r"bar\.red\.(?P<k>and|or)\.(?P<t>pred)": f"simt::block_barrier(simt::BlockOp::<K>, {{1}}, {PLACE}) != 0",
}
EFFECTS: dict[str, str] = {
    r"(bar|barrier)\.sync": f"simt::block_barrier(simt::BlockOp::kSync, 0, {PLACE})",
    r"bar\.warp\.sync": f"simt::warp_collective(simt::WarpOp::kSync, {{0}}, 0, 0, {PLACE})",
}
_LOAD_OR_STORE = re.compile(r"(ld|st)(?:\.volatile)?(?:\.(global|shared|param|local))?(?:\.nc)?(?:\.v[248])?\.(\w+)")
_CALL = re.compile(r"call(?:\.uni)?\s+(?:\(([^()]*)\)\s*,\s*)?([\w$]+)\s*(?:,\s*\(([^()]*)\))?\s*")
_ATOMIC = re.compile(r"(?:atom|red)(?:\.relaxed\.gpu)?\.(global|shared)(?:\.sys)?\.(add|max|min)\.(\w+)")
_RELAXED = re.compile(r"(ld|st)\.relaxed\.gpu\.global\.(\w+)")  # these may race with each other, as atomics may


class UnknownInstruction(Exception):
    """PTX that cannot be executed."""


def identifier(name: str) -> str:
    """An identifier of C++ for one of PTX."""
    return re.sub(r"\W", "_", name.strip().replace("$", "label_").lstrip("%"))


def statement(opcode: str, text: str, names: Mapping[str, str]) -> str:
    """The statement for an instruction.

    Args:
        opcode: its name with types and modes, `add.s32`.
        text: its operands.
        names: what stands for the names of variables and parameters.

    Raises:
        UnknownInstruction: names it.
    """
    operands = _operands(text)
    if opcode in ("bra", "bra.uni"):
        return f"goto {identifier(operands[0])};"
    if opcode in ("ret", "exit"):
        return "return;"
    if call := _CALL.fullmatch(f"{opcode} {text}"):
        given = ", ".join(_operands(f"{call[1] or ''},{call[3] or ''}"))
        return f"{{ char* given[] = {{{given}}}; {identifier(call[2])}(given); }}"
    for form in (_memory, _atomic, _halves, _effect, _result):
        if made := form(opcode, operands, names):
            return made
    raise UnknownInstruction(f"{opcode} {text}")


def place_of(text: str, space: str, names: Mapping[str, str]) -> str:
    """The address that an instruction's operands have, in brackets."""
    return _address(next(operand for operand in _operands(text) if operand.startswith("[")), space, names)


def _memory(opcode: str, operands: Sequence[str], names: Mapping[str, str]) -> str:
    match = _LOAD_OR_STORE.fullmatch(opcode)
    if not match:
        return ""
    what, space, type = match[1], match[2] or "generic", UNSIGNED[match[3]] if match[3][0] != "s" else C[match[3]]
    place, other = (operands[1], operands[0]) if what == "ld" else operands
    parts = [part.strip() for part in other.strip("{}").split(",")]
    lines = []
    for index, part in enumerate(parts):
        at = f"address + {int(match[3][1:]) // 8 * index}"
        if what == "st":
            function = "store_parameter" if space == "param" else "store"
            lines.append(f"{function}<{type}>({at}, {_value(part, names)});")
        elif part != "_":
            function = "load_parameter" if space == "param" else "load"
            lines.append(f"const uint64_t part{index} = {function}<{type}>({at});")
    # All parts are read before a register is written that the address may be in.
    lines += [f"{identifier(part)} = part{index};" for index, part in enumerate(parts) if what == "ld" and part != "_"]
    return f"{{ char* address = {_address(place, space, names)}; {' '.join(lines)} }}"


def _atomic(opcode: str, operands: Sequence[str], names: Mapping[str, str]) -> str:
    if match := _RELAXED.fullmatch(opcode):
        type, loads = C[match[2]], match[1] == "ld"
        place, other = reversed(operands) if loads else operands
        after = "before" if loads else f"as<{type}>({_value(other, names)})"
        call = f"atomic<{type}>({_address(place, 'global', names)}, [&]({type} before) {{ return {after}; }});"
        return f"{identifier(other)} = {call}" if loads else call
    match = _ATOMIC.fullmatch(opcode)
    if not match:
        return ""
    *result, place, value = operands
    type, operand = C[match[3]], f"as<{C[match[3]]}>({_value(value, names)})"
    update = f"before + {operand}" if match[2] == "add" else f"std::{match[2]}(before, {operand})"
    call = f"atomic<{type}>({_address(place, match[1], names)}, [&]({type} before) {{ return {update}; }})"
    return f"{identifier(result[0])} = {call};" if result and result != ["_"] else f"{call};"


def _halves(opcode: str, operands: Sequence[str], names: Mapping[str, str]) -> str:
    """mov.b64 between a register and a pair of them."""
    if opcode != "mov.b64" or "{" not in "".join(operands):
        return ""
    if operands[0].startswith("{"):
        halves = zip(operands[0].strip("{}").split(","), ("both", "both >> 32"), strict=True)
        parts = "".join(f" {identifier(part)} = {half};" for part, half in halves if part.strip() != "_")
        return f"{{ const uint64_t both = {_value(operands[1], names)};{parts} }}"
    low, high = (_value(part, names) for part in operands[1].strip("{}").split(","))
    return f"{identifier(operands[0])} = static_cast<uint64_t>({high}) << 32 | static_cast<uint32_t>({low});"


def _effect(opcode: str, operands: Sequence[str], names: Mapping[str, str]) -> str:
    for pattern, effect in EFFECTS.items():
        if re.fullmatch(pattern, opcode):
            return effect.format(*(_value(operand, names) for operand in operands)) + ";"
    return ""


def _result(opcode: str, operands: Sequence[str], names: Mapping[str, str]) -> str:
    for pattern, result in RULES.items():
        flushes = ".ftz" in opcode and "ftz" not in pattern
        match = re.fullmatch(pattern, opcode.replace(".ftz", "") if flushes else opcode)
        if not match:
            continue
        target, _, inside = operands[0].partition("|")
        for word, text in _words(opcode, match.groupdict()):
            result = result.replace(f"<{word}>", text)
        if flushes:
            result = re.sub(r"\bas<float>\(", "as_flushed(", result).replace("bits(", "bits_flushed(")
        values = [_value(operand, names) for operand in operands[1:]]
        return f"{identifier(target)} = {result.format(*values, p=f'&{identifier(inside)}' if inside else 'nullptr')};"
    return ""


def _words(opcode: str, found: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """What stands in a rule for the parts of an instruction's name."""
    type, compared = found["t"] or "", found.get("c") or ""
    yield "T", C[type]
    yield "U", UNSIGNED[type]
    yield "T64", C.get(f"{type[0]}64", "")
    yield "D", C.get(found.get("d") or "", "")
    yield "o", found.get("o") or ""
    yield "+", OPERATOR.get(opcode.partition(".")[0], "")
    yield "C", COMPARED.get(compared, "")
    yield "N", OPPOSITE.get(compared, "")
    yield "K", BLOCK_OPS.get(found.get("k") or "", "")


def _operands(text: str) -> list[str]:
    """The operands, those in braces as one."""
    return [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+", text) if part.strip()]


def _address(place: str, space: str, names: Mapping[str, str]) -> str:
    base, _, offset = place.strip("[] ").partition("+")
    # All but shared memory is the host's; nothing makes a generic address of a shared one.
    return f"{'shared' if space == 'shared' else 'global'}({_value(base, names)} + ({offset or 0}))"


def _value(operand: str, names: Mapping[str, str]) -> str:
    operand = operand.strip()
    if operand in SPECIAL:
        return SPECIAL[operand]
    if operand in names:
        return names[operand]
    if operand.startswith("%"):
        return identifier(operand)
    if real := re.fullmatch(r"0[fFdD]([0-9A-Fa-f]+)", operand):
        return f"0x{real[1]}ull"
    if number := re.fullmatch(r"(-?)(0x[0-9A-Fa-f]+|\d+)U?", operand):
        return f"({number[1]}{number[2]}ull)"
    raise UnknownInstruction(f"the operand {operand}")
