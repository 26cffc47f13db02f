"""Finds parameters that a shell or another interpreter could read as code. Pure.

`task_template.py` refuses parameters in places that are certainly code, also in stored jobs. These rules are stricter,
and apply to new definitions. If in doubt, a parameter must go through the environment, or after `--`.

No list contains every program. So these rules apply to the arguments of any program:

* a parameter is a whole argument, or the value in `--name=…`, where `name` does not suggest commands or code;
* it does not follow a short option (`-c`, `-exec`), because its name does not show what its value means;
* it is not the name of a program.

In addition, there are lists: shells and interpreters anywhere in the arguments, programs that pass their arguments to a
shell (`ssh`), and programs that start others (`nice`).

Parameters with restricted values are exempt: a number, `choices`, or a `pattern` that no code can match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onthedot.model.task import Command, Container, Param, Steps, Task
from onthedot.runners.param_patterns import is_harmless
from onthedot.runners.task_template import references

_ENVIRONMENT = 'put it into env, and write "$NAME" in a script'


class InjectionRisk(NamedTuple):
    """A parameter that could be read as code: its place, its name, and why."""

    place: str
    name: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.place}: expected no parameter where it may be read as code, got '${{{{ params.{self.name} }}}}': "
            f"{self.why}; {_ENVIRONMENT}, or bound its values with 'choices' or 'pattern'"
        )


def injection_risks(task: Task, params: Sequence[Param]) -> list[InjectionRisk]:
    """Return every parameter of a task that could be read as code.

    >>> [str(one.place) for one in injection_risks(Command(argv=("nice", "zsh", "-fc", "${{ params.x }}")), [])]
    ['argv[3]']
    >>> injection_risks(Command(argv=("deploy", "${{ params.env }}", "--to=${{ params.to }}")), [])
    []
    """
    bounded = {param.name for param in params if _is_bounded(param)}
    return [one for one in _all(task) if one.name not in bounded]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _is_bounded(param: Param) -> bool:
    if param.kind != "text" or param.choices:
        return True
    return bool(param.pattern) and is_harmless(param.pattern)


def _all(task: Task) -> Iterator[InjectionRisk]:
    match task:
        case Command():
            yield from _argv("argv", task.argv)
            yield from _env("env", task.env)
        case Container():
            yield from _argv("argv", task.words)
            yield from _env("env", task.env)
        case Steps():
            yield from _env("env", task.env)
            for step in task.steps:
                yield from _argv(f"steps.{step.name}.argv", step.argv)
                yield from _env(f"steps.{step.name}.env", step.env)
        case _:
            pass


# ── environment ──────────────────────────────────────────────────────────────────────────────────────────────

_CODE_VARIABLE = re.compile(
    r"(?:LD|DYLD|PYTHON|PERL5?|RUBY|NODE|GIT|BASH|ZSH|GCONV|LUA)(?:_?[A-Z0-9_]*)"
    r"|ENV|PATH|IFS|SHELL|SHELLOPTS|PS[0-4]|PROMPT_COMMAND|CDPATH|EDITOR|VISUAL|PAGER|BROWSER|FPATH|ZDOTDIR|GEM_HOME"
    r"|HOME|MAKEFILES|GNUMAKEFLAGS|VIMINIT|EXINIT|SVN_SSH|BORG_RSH|BORG_PASSCOMMAND|GOFLAGS|ERL_AFLAGS|OPENSSL_CONF"
    r"|KUBECONFIG|GUNICORN_CMD_ARGS|WGETRC|LESS|JAVA_HOME"
    r"|MAKEFLAGS|CLASSPATH|RUSTC|CC|CXX|LESSOPEN|LESSCLOSE|MANPAGER|RSYNC_RSH|CVS_RSH|TAR_OPTIONS|INPUTRC|TERMINFO"
    r"|[A-Z0-9_]*(?:_COMMAND|_OPTIONS|_OPTS|_PRELOAD|_PAGER|_EDITOR|_WRAPPER|_ASKPASS)"
)


def _env(place: str, env: Mapping[str, str]) -> Iterator[InjectionRisk]:
    for name, text in env.items():
        if _CODE_VARIABLE.fullmatch(str(name)):
            for used in _names(str(text)):
                yield InjectionRisk(f"{place}.{name}", used, f"programs load or run what {name!r} says")


# ── argument lists ───────────────────────────────────────────────────────────────────────────────────────────

_MARKED = "${{"
_WHOLE = re.compile(r"\$\{\{[^{}]*\}\}")
_NAMED = re.compile(r"--([A-Za-z0-9][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./:@%,=?&#~\[\]-]*")
_CODE_WORDS = _words(
    "action args askpass awk browser call cmd code command commands editor entrypoint eval evaluate exec execute expr"
    " expression extcmd filter hook import init javascript jq js load lua macro pager perl plugin post pre preload"
    " program prog python query require rsh ruby run script sed sh shell sql ssh statement string where wrap"
)
_CODE_NAMES = frozenset({"rsync-path", "upload-pack", "receive-pack"})


def _argv(place: str, argv: Sequence[str]) -> Iterator[InjectionRisk]:
    words = [str(word) for word in argv]
    for at, word in enumerate(words):
        used = _names(word) if at else []
        if used:
            why = _own_form(word) or _behind(words, at) or _started(words, at)
            yield from (InjectionRisk(f"{place}[{at}]", name, why) for name in used if why)


def _names(text: str) -> list[str]:
    return [one.name for one in references(text) if one.source == "params"]


def _own_form(word: str) -> str:
    """Return why the argument itself could be code; empty if it cannot."""
    if _WHOLE.fullmatch(word):
        return ""
    named = _NAMED.fullmatch(word)
    if named is not None:
        return _named_code(named[1]) or _fixed_text(named[2])
    if word[0] in "-+":
        return "a short option does not say what its value is; use '--name=…'"
    assigned = _ASSIGNED.fullmatch(word)
    if assigned is not None and _CODE_VARIABLE.fullmatch(assigned[1]):
        return f"programs load or run what {assigned[1]!r} says"
    return _fixed_text(word)


def _fixed_text(word: str) -> str:
    fixed = _WHOLE.sub("", word)
    return "" if _PLAIN_TEXT.fullmatch(fixed) else "the text around it looks like code"


def _named_code(option: str) -> str:
    """Return why a long option may take code, judging by its name; empty if it may not."""
    name = option.lower()
    if name in _CODE_NAMES or any(part in _CODE_WORDS for part in re.split(r"[-_.]", name)):
        return f"'--{option}' speaks of code"
    return ""


def _behind(words: Sequence[str], at: int) -> str:
    """Return why the argument may be the value of the option before it; empty if it is not. `--` ends the options,
    except where a value is missing, as in `sh -c -- …`."""
    before = words[at - 1] if at > 1 else ""
    if before == "--":
        before = words[at - 2] if at > 2 else ""
        if not (before.startswith("--") or re.fullmatch(r"[-+][A-Za-z]*[cCeES][A-Za-z]*", before)):
            return ""
    if before.startswith("--") and len(before) > 2:
        return "" if "=" in before else _named_code(before[2:])
    if before[:1] in ("-", "+") and len(before) > 1:
        return f"{before!r} before it does not say what its value is; use '--name=…'"
    return ""


# ── known programs ───────────────────────────────────────────────────────────────────────────────────────────

_SHELLS = _words(
    "ash bash cmd csh dash elvish fish hush ksh lksh mksh nu oksh pdksh posh powershell pwsh rbash rksh sash sh"
    " tcsh xonsh yash zsh"
)
_TEXT_FIRST = _words(
    "awk elixir expect gawk groovy guile julia kotlin lua luajit mawk nawk node nodejs octave original-awk"
    " osascript perl php pypy python racket raku rscript ruby sbcl scala tclsh ts-node tsx wish"
)
"""Programs that read the first argument as a script or as code, and pass the rest to it."""
_ANY_ORDER = frozenset({"gsed", "jq", "sed", "yq"})
"""The same, but these programs also read options after that argument, up to a `--`."""
_ALWAYS = _words(
    "bc bun clojure dc deno ed emacs erl ex gdb ghc ghci gmake jshell lldb m4 make mariadb mysql nvim psql run-parts"
    " rvim socat sqlite vi view vim"
)
"""Programs that may read any argument as code."""
_HANDS_ON = _words(
    "at autossh batch entr eval hyperfine ksu mosh parallel rexec rsh runuser screen script slogin ssh sshpass su tmux"
    " watch wsl xterm"
)
_START_AT_ONCE = _words(
    "builtin busybox bwrap capsh catatonit catchsegv chpst command cpulimit dbus-run-session doas dumb-init env"
    " exec fakeroot firejail ionice ld-linux linux32 linux64 ltrace nice nohup npx nsenter numactl pipx pkexec prlimit"
    " proot proxychains rlwrap runcon sem setarch setpriv setsid ssh-agent start-stop-daemon stdbuf strace sudo"
    " systemd-run time tini torify torsocks toybox unbuffer unshare uvx valgrind xargs"
)
_STARTERS: dict[str, int] = {
    **dict.fromkeys(_START_AT_ONCE, 0),
    **dict.fromkeys(_words("chroot chrt envdir flock gosu setuidgid softlimit su-exec taskset timeout"), 1),
}
"""Programs that start the program in their arguments, and the number of arguments before its name."""
_ENGINES = frozenset({"docker", "incus", "kubectl", "lxc", "nerdctl", "oc", "podman"})
_RUN_WORDS = frozenset({"exec", "foreach", "run"})
"""Subcommands (`poetry run`, `git submodule foreach`) that start the program after them."""
_NO_WORDS = (_SHELLS | _TEXT_FIRST | {"sed", "ssh"}) - {"cmd", "expect", "julia", "node", "nu", "posh", "scala"}
"""Names that hardly mean anything else. We look for them in all arguments, because no list has all programs that start
others."""

_CODE_OPTION = re.compile(r"-[aefhnuvx]*c|-[eEr]")
_MODULES_OF_CODE = frozenset({"cProfile", "code", "doctest", "pdb", "profile", "runpy", "timeit", "trace"})


def _started(words: Sequence[str], at: int) -> str:
    """Return why a program that is named before the argument may read it as code; empty if none does."""
    run = max((number for number in range(1, at) if words[number] in _RUN_WORDS), default=0)
    if run and not _names_program("", words[run + 1 : at], 0):
        return f"{words[run]!r} may take it for the program to start"
    first = _program(words[0])
    starts = first in _STARTERS or (first in _ENGINES and not {"exec", "run"}.isdisjoint(words[1:at]))
    for number, word in enumerate(words[:at]):
        name, between = _program(word), words[number + 1 : at]
        if number and not starts and name not in _NO_WORDS:
            continue
        before = 2 if starts and name in _ENGINES else _STARTERS.get(name)
        if before is not None and not _is_variable(name, words[at]) and not _names_program(name, between, before):
            return f"{name!r} may take it for the program to start"
        if name in _HANDS_ON:
            return f"{name!r} hands its arguments to a shell"
        if name in _SHELLS | _TEXT_FIRST | _ANY_ORDER:
            return "" if _is_argument(name, between) else f"{name!r} may read it as code"
        if name in _ALWAYS:
            return f"{name!r} may read it as code"
    return ""


def _is_variable(name: str, word: str) -> bool:
    return name in ("doas", "env", "sudo") and _ASSIGNED.fullmatch(word) is not None


def _program(word: str) -> str:
    """Return the name of a program, without its folder and version.

    >>> _program("/usr/bin/python3.11"), _program("lua5.4"), _program("cmd.EXE")
    ('python', 'lua', 'cmd')
    >>> _program("m4"), _program("/lib64/ld-linux-x86-64.so.2")
    ('m4', 'ld-linux')
    """
    name = word.rpartition("/")[2].lower().removesuffix(".exe")
    if name.startswith("ld-linux"):
        return "ld-linux"
    return name if name in _STARTERS or name in _ALWAYS else re.sub(r"[-0-9.]+$", "", name)


def _names_program(name: str, between: Sequence[str], before: int) -> bool:
    """Return whether these words contain the program's name, after `before` other arguments. A word after an option may
    be the option's value."""
    count, previous = 0, ""
    for word in between:
        if _MARKED in word and not _is_variable(name, word):
            return count > before
        is_value = previous.startswith("-") and previous != "--"
        if word != "--" and not word.startswith("-") and not is_value and not _ASSIGNED.fullmatch(word):
            count += 1
        previous = word
    return count > before


def _is_argument(name: str, between: Sequence[str]) -> bool:
    """Return whether the next word is an argument of a script, of code or of a Python module, to which the interpreter
    passes it."""
    first, second, third = (*between, "", "", "")[:3]
    if not first or _MARKED in first or _MARKED in second:
        return False
    if first[0] not in "-+":
        return name not in _ANY_ORDER or "--" in between[1:]
    if first == "-m" and name in ("python", "pypy"):
        return bool(second) and second not in _MODULES_OF_CODE
    if not _CODE_OPTION.fullmatch(first) or not second or second[0] in "-+":
        return False
    return third == "--" or (name in _SHELLS and bool(third) and _MARKED not in third)
