"""PTX as C++: a function for each kernel, a statement for each instruction, for engine.cpp to execute."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .ptx_counting import Block, Statement, count
from .ptx_instructions import UNSIGNED, UnknownInstruction, identifier, statement

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)[^{]*\{", re.DOTALL)
_FUNCTION = re.compile(r"\.func\s*(?:\(([^()]*)\)\s*)?([\w$]+)\s*\(([^()]*)\)\s*\{")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.b(\d+)\s+([\w$]+)(?:\[(\d+)\])?")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(%\w+)<\d+>;")
_SHARED = re.compile(r"\.shared\s+\.align\s+\d+\s+\.[a-z]+(\d+)\s+([\w$]+)(?:\[(\d+)\])?;")
_LAUNCH_SHARED = re.compile(r"\.extern\s+\.shared\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\];")
MOST_SHARED = 227 << 10  # that a launch may ask for, on 9.0
_LOCAL = re.compile(r"\.local\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\];")
# A scope has registers of its own, which hide others of the same name.
_STATEMENT = re.compile(r"\s*(?:(?P<label>[\w$]+):|(?P<brace>[{}])|(?P<instruction>[^;]+);)")
_OWN_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([\w%,\s]+)")
FILE = """// Made by ptx_translator.py.
#include <map>
#include <string>

#include "ptx.h"
#include "runtime.h"

using namespace ptx;

{variables}
{functions}
namespace simt {{

const std::map<std::string, void (*)(void*)>& ptx_kernels() {{
  static const std::map<std::string, void (*)(void*)> all = {{
{table}  }};
  return all;
}}

}}  // namespace simt
"""


class Kernel(NamedTuple):
    """A kernel: the names of its parameters, its shared variables with their sizes, and its statements.

    Or a function that one calls, whose result is the first of its parameters.
    """

    parameters: tuple[str, ...]
    shared: Mapping[str, int]
    body: str
    is_called: bool = False


def kernels_in(ptx: str, part: str) -> dict[str, Kernel]:
    """The kernels whose mangled names have this part, a regular expression, and the functions they call; by name."""
    found, ptx = {}, re.sub(r"//.*", "", ptx)
    every = {name: int(bits) // 8 * int(count or 1) for bits, name, count in _SHARED.findall(ptx)}
    every |= dict.fromkeys(_LAUNCH_SHARED.findall(ptx), MOST_SHARED)
    for entry in _ENTRY.finditer(ptx):
        if re.search(part, entry[1]):
            body = _to_its_end(ptx[entry.end() :])
            parameters = tuple(re.findall(r"([\w$]+)(?:\[\d+\])?\s*(?:,|$)", entry[2].strip(), re.MULTILINE))
            named = set(re.findall(r"[\w$]+", body))
            shared = {name: size for name, size in every.items() if name in named}
            found[entry[1]] = Kernel(parameters, shared, body)
    functions = {each[2]: each for each in _FUNCTION.finditer(ptx)}
    bodies = [each.body for each in found.values()]
    for body in bodies:
        for name in sorted({*re.findall(r"[\w$]+", body)} & functions.keys() - found.keys()):
            bodies.append(_to_its_end(ptx[functions[name].end() :]))
            given = _PARAMETER.findall(f"{functions[name][1]},{functions[name][3]}")
            found[name] = Kernel(tuple(each[1] for each in given), {}, bodies[-1], True)
    return found


def translate(kernels: Mapping[str, Kernel], counted: bool = False) -> str:
    """The C++ source of these kernels, and of the table by which runtime.cpp finds them.

    Args:
        kernels: by name.
        counted: whether they say to counters.h what they do.

    Raises:
        UnknownInstruction: there is PTX that ptx_instructions.py does not know.
    """
    shared = {name: size for kernel in kernels.values() for name, size in kernel.shared.items()}
    aligned = "__attribute__((aligned(65536)))"  # as in simt.h, so that an index that is too large misses the next one
    variables = "\n".join(f"thread_local char {identifier(name)}[{size}] {aligned};" for name, size in shared.items())
    functions = "\n".join(_function(number, *each, counted) for number, each in enumerate(kernels.items()))
    entries = {name: number for number, (name, kernel) in enumerate(kernels.items()) if not kernel.is_called}
    variables += "".join(f"\nstatic void {identifier(name)}(void*);" for name in kernels if name not in entries)
    table = "".join(f'    {{"{name}", &kernel_{number}}},\n' for name, number in entries.items())
    return FILE.format(variables=variables, functions=functions, table=table)


def _to_its_end(text: str) -> str:
    """The text before the brace that closes what was opened before it."""
    depth = 1
    for brace in re.finditer(r"[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[: brace.start()]
    raise UnknownInstruction("a kernel without an end")


def _without_padding(body: str) -> str:
    """The same without the parts of vectors that nobody asks for: nvcc loads them along, whatever is there."""
    uses = Counter(re.findall(r"%[a-z]+\d+", body))

    def shortened(load: re.Match[str]) -> str:
        parts = [part.strip() for part in load[2].split(",")]
        return load[1] + "{" + ", ".join("_" if uses[part] == 1 else part for part in parts) + "}"

    return re.sub(r"(\bld\.[\w.]*\.v[248]\.\w+\s+)\{([^}]*)\}", shortened, body)


def _function(number: int, name: str, kernel: Kernel, counted: bool) -> str:
    body = _without_padding(kernel.body)
    types = {prefix: UNSIGNED[kind] for kind, prefix in _REGISTERS.findall(body)}
    called = identifier(name) if kernel.is_called else f"kernel_{number}"
    lines = [f"// {name}", f"static void {called}(void* context) {{"]
    lines += ["  char** parameters = static_cast<char**>(context);", "  (void)parameters;"]
    for register in sorted(set(re.findall(r"%[a-z]+\d+", body))):
        lines.append(f"  {types[register.rstrip('0123456789')]} {identifier(register)} = 0;")
    lines += [f"  alignas({alignment}) char {name}[{size}];" for alignment, name, size in _LOCAL.findall(body)]
    names = _names(kernel)
    marks = count(list(_parsed(body)), names).marks if counted else {}
    return "\n".join([*lines, *(f"  {line}" for line in _statements(body, names, marks)), "}", ""])


def blocks(kernel: Kernel) -> tuple[Block, ...]:
    """What a kernel is counted by, in the order of the numbers that counters.h has."""
    return count(list(_parsed(_without_padding(kernel.body))), _names(kernel)).blocks


def _names(kernel: Kernel) -> dict[str, str]:
    names = {name: f"bits(&{name}[0])" for _, name, _ in _LOCAL.findall(kernel.body)}
    names |= {name: f"bits(&{name}[0])" for _, name, _ in _PARAMETER.findall(kernel.body)}
    names |= {name: f"shared_address({identifier(name)})" for name in kernel.shared}
    return names | {name: f"bits(parameters[{index}])" for index, name in enumerate(kernel.parameters)}


def _parsed(body: str) -> Iterator[Statement]:
    for found in _STATEMENT.finditer(body):
        instruction = (found["instruction"] or "").strip()
        if found["label"]:
            yield Statement(label=found["label"])
        elif not instruction or instruction.startswith("."):
            yield Statement()
        else:
            guard = re.match(r"@(!?)(%\w+)\s+", instruction)
            opcode, *operands = instruction[guard.end() if guard else 0 :].split(maxsplit=1)
            condition = f"{guard[1]}{identifier(guard[2])}" if guard else ""
            yield Statement("", condition, opcode, "".join(operands))


def _statements(body: str, names: Mapping[str, str], marks: Mapping[int, str]) -> Iterator[str]:
    for position, (found, parsed) in enumerate(zip(_STATEMENT.finditer(body), _parsed(body), strict=True)):
        if position in marks:
            yield marks[position]
        if found["brace"]:
            yield found["brace"]
        elif found["label"]:
            yield f"{identifier(found['label'])}:;"
        elif own := _OWN_REGISTERS.fullmatch((found["instruction"] or "").strip()):
            yield "".join(f"{UNSIGNED[own[1]]} {identifier(name)} = 0; " for name in own[2].split(","))
        elif own := _PARAMETER.fullmatch((found["instruction"] or "").strip()):
            yield f"alignas(16) char {own[2]}[{int(own[1]) // 8 * int(own[3] or 1)}];"
        elif parsed.opcode:
            made = statement(parsed.opcode, parsed.operands, names)
            yield f"if ({parsed.guard}) {made}" if parsed.guard else made
