"""Single-line mutations of C++ text, and which of them to try. Pure: it reads and runs nothing.

A mutation changes one line of code the way a programmer's mistake would: `<` for `<=`, a missing
statement, two arguments swapped. The operators rely on the project's format (clang-format, Google
style): a binary operator has spaces around it; a pointer's star and a template's bracket have none.
"""

import collections
import random
import re

Mutation = collections.namedtuple("Mutation", "path line column operator before after")

TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

# Not expected to be detected: assertions (true unless the program is wrong), log lines, and memory
# reservations.
NOT_MUTATED = re.compile(
    r"\b(?:MILLRACE_CHECK\w*|CheckInvariants|static_assert|spdlog::\w+|\w+(?:\.|->)reserve|std::this_thread::\w+)"
    r"\s*(?=\()")
NO_CODE = re.compile(r"\s*(?:#|using\b|namespace\b|template\b|friend\b|class\b|struct\b|enum\b|"
                     r"typedef\b|public:|private:|case\b|default:)")

SWAPPED_TOKENS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=",
}
BINARY = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||\+=|-=|<|>|\+|-|\*|/|%)(?= |$)")
SWAPPED_WORDS = {
    "true": "false", "false": "true", "std::min": "std::max", "std::max": "std::min",
    "lower_bound": "upper_bound", "upper_bound": "lower_bound", "min_element": "max_element",
    "max_element": "min_element", "front()": "back()", "back()": "front()", "any_of": "all_of",
    "all_of": "any_of",
}
WORD = re.compile(r"(?<![\w:])(true|false|std::min|std::max)\b|"
                  r"\b(lower_bound|upper_bound|min_element|max_element|any_of|all_of)(?=\()|"
                  r"(?<=[.>])(front\(\)|back\(\))")
STEP = re.compile(r"\+\+(?=[\w(*])|(?<!-)--(?=[\w(*])")
NOT = re.compile(r"(?<![\w=])!(?=[\w(*:])")
INTEGER = re.compile(r"(?<![\w.'])(\d+)(?=[uUlL]*(?![\w.']))")
FLOAT = re.compile(r"(?<![\w.'])(\d+\.\d*)(?=[fF]?(?![\w.']))")
IF = re.compile(r"\b(?:if|while) (?=\()")
CALL = re.compile(r"([\w:]+)(?=\()")
NOT_SWAPPED = {"min", "max", "swap", "if", "for", "while", "switch", "return", "void", "bool"}
RETURN_IF_ERROR = re.compile(r"MILLRACE_RETURN_IF_ERROR(?=\()")


def blanked(match):
    return re.sub(r"[^\n]", " ", match.group())


def closing(code, opening):
    """The index of the bracket that closes the one at `opening`; None if there is none."""
    depth = 0
    for place in range(opening, len(code)):
        if code[place] in "([{":
            depth += 1
        elif code[place] in ")]}":
            depth -= 1
            if depth == 0:
                return place
    return None


def mutable_code(text):
    """The text with all that is not mutated replaced by spaces; every index stays valid."""
    code = TOKENS.sub(blanked, text)
    for match in list(NOT_MUTATED.finditer(code)):
        end = closing(code, match.end())
        if end is not None:
            hidden = re.sub(r"[^\n]", " ", code[match.start():end + 1])
            code = code[:match.start()] + hidden + code[end + 1:]
    return code


def split_arguments(code, begin, end):
    """The ranges [begin, end) of a call's arguments."""
    found = []
    depth = 0
    start = begin
    for place in range(begin, end):
        if code[place] in "([{":
            depth += 1
        elif code[place] in ")]}":
            depth -= 1
        elif code[place] == "," and depth == 0:
            found.append((start, place))
            start = place + 1
    found.append((start, end))
    return found


def replacements_of_tokens(code, text):
    for match in BINARY.finditer(code):
        token = match.group()
        if text[match.start() - 2] == '"' or text[match.end() + 1:match.end() + 2] == '"':
            continue  # strings are only ever added
        yield match.start(), match.end(), SWAPPED_TOKENS[token], f"{token} to {SWAPPED_TOKENS[token]}"
    for match in WORD.finditer(code):
        word = match.group()
        yield match.start(), match.end(), SWAPPED_WORDS[word], f"{word} to {SWAPPED_WORDS[word]}"
    for match in STEP.finditer(code):
        other = "--" if match.group() == "++" else "++"
        yield match.start(), match.end(), other, f"{match.group()} to {other}"
    for match in NOT.finditer(code):
        yield match.start(), match.end(), "", "removed !"
    for match in INTEGER.finditer(code):
        value = int(match.group())
        yield match.start(), match.end(), str(value + 1), "constant + 1"
        if value > 0:
            yield match.start(), match.end(), str(value - 1), "constant - 1"
    for match in FLOAT.finditer(code):
        yield match.start(), match.end(), repr(float(match.group()) + 1), "constant + 1"


def replacements_of_conditions(code, text):
    for match in IF.finditer(code):
        end = closing(code, match.end())
        if end is None:
            continue
        begin = max([match.end() + 1] + [first + 1 for first in
                                         range(match.end(), end) if code[first] == ";"])
        while code[begin] == " ":
            begin += 1
        condition = text[begin:end]
        yield begin, end, f"!({condition})", "negated condition"
        if code.rstrip().endswith("{") and match.group().startswith("if"):
            yield begin, end, "false", "skipped block"


def is_declaration(head):
    """Whether the text before a name ends in a type: the name is declared, not called."""
    words = re.sub(r"\b(return|else|co_return|delete|throw|new)\b", "", head)
    return re.search(r"[\w>&*\]]\s+$", words) is not None


def replacements_of_arguments(code, text):
    if not code.startswith(" "):
        return
    for match in CALL.finditer(code):
        name = match.group(1).split("::")[-1]
        end = closing(code, match.end())
        if end is None or name in NOT_SWAPPED or is_declaration(code[:match.start()]):
            continue
        arguments = split_arguments(code, match.end() + 1, end)
        for (a, b), (c, d) in zip(arguments, arguments[1:]):
            first, second = text[a:b].strip(), text[c:d].strip()
            if first and second and first != second:
                space = " " if text[a] == " " else ""
                yield a, d, f"{space}{second}, {first}", "swapped arguments"


def replacements_of_statements(code, text, previous):
    if match := RETURN_IF_ERROR.search(code):
        yield match.start(), match.end(), "(void)", "ignored error"
    words = code.strip()
    starts_here = previous == "" or previous[-1] in ";{}:"
    if len(words) < 2 or not words.endswith(";") or not starts_here or not text.startswith(" "):
        return
    begin = len(code) - len(code.lstrip())
    end = len(code.rstrip())
    if words.startswith(("if (", "else if (")):
        what = "removed guard" if re.search(r"\b(return|continue|break)\b", words) else \
            "removed statement"
        yield begin, end, ";", what
        return
    head = re.split(r"[(=;]|\+=|-=|\|=", words)[0].rstrip()
    if re.match(r"(return|break|else|for|while|do|goto|MILLRACE_ASSIGN_OR_RETURN|const|auto)\b",
                words) or re.search(r"[\w>&*\]]\s+[\w&*]", head) or "}" in words:
        return
    if re.fullmatch(r"[\w:<>]+", words[:-1]) and words != "continue;":
        return
    depth = 0
    for place in words:
        depth += (place in "([{") - (place in ")]}")
        if depth < 0:
            return
    if depth == 0:
        yield begin, end, ";", "removed statement"


def mutations_of(path, text):
    """All mutations of a file, in the order of its lines."""
    lines = text.split("\n")
    codes = mutable_code(text).split("\n")
    found = []
    previous = ""
    for number, (line, code) in enumerate(zip(lines, codes), 1):
        if not code.strip():
            continue
        if not NO_CODE.match(code):
            replacements = [*replacements_of_tokens(code, line), *replacements_of_conditions(code, line),
                            *replacements_of_arguments(code, line),
                            *replacements_of_statements(code, line, previous)]
            for begin, end, new, operator in replacements:
                after = line[:begin] + new + line[end:]
                found.append(Mutation(path, number, begin + 1, operator, line, after))
        previous = code.rstrip()
    return found


def drawn(mutations, seed):
    """All mutations in an order that depends on the seed only: one of each line, then the rest."""
    of_line = collections.defaultdict(list)
    for mutation in mutations:
        of_line[mutation.path, mutation.line].append(mutation)
    chance = random.Random(seed)
    lines = sorted(of_line)
    chance.shuffle(lines)
    for line in lines:
        chance.shuffle(of_line[line])
    longest = max((len(found) for found in of_line.values()), default=0)
    for turn in range(longest):
        for line in lines:
            if turn < len(of_line[line]):
                yield of_line[line][turn]


def apply(text, mutation):
    """The text with the mutation applied. REQUIRES: the text it was found in."""
    lines = text.split("\n")
    assert lines[mutation.line - 1] == mutation.before
    lines[mutation.line - 1] = mutation.after
    return "\n".join(lines)


class Equivalents:
    """Mutations without visible effect, each with its reason.

    The file has blocks divided by empty lines; a line that begins with `#` is a comment:

        stores/row_space.cc
        - if (bytes < free_) {
        + if (bytes <= free_) {
        an empty remainder is dropped by the next line anyway

    A block applies to every line with this text in the file, whatever its number.
    """

    def __init__(self, text):
        self.reasons = {}  # (path, before, after) -> reason
        lines = [line for line in text.split("\n") if not line.startswith("#")]
        for block in re.split(r"\n\s*\n", "\n".join(lines).strip()):
            if not block.strip():
                continue
            parts = block.strip().split("\n")
            if len(parts) < 4 or not parts[1].startswith("- ") or not parts[2].startswith("+ "):
                raise ValueError(f"not a path, '- before', '+ after' and a reason:\n{block}")
            key = (parts[0].strip(), parts[1][2:].strip(), parts[2][2:].strip())
            self.reasons[key] = " ".join(part.strip() for part in parts[3:])

    def reason(self, mutation):
        return self.reasons.get((mutation.path, mutation.before.strip(), mutation.after.strip()))

    def stale(self, texts):
        """The entries whose line no longer exists; texts is {path: text}."""
        return [key for key in self.reasons
                if key[1] not in [line.strip() for line in texts.get(key[0], "").split("\n")]]
