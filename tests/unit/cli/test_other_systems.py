"""The command line where modules and functions of POSIX are missing, as on Windows and, partly, on macOS.

Two tests in one: commands run with what other systems lack hidden, and the code that they import is searched for what
cannot be hidden, because Python's own modules use it here.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.entry_points import announce
from trellis.cli.main import COMMANDS, SECTIONS

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "trellis"
# What Windows lacks. macOS lacks os.sched_getaffinity, os.memfd_create and select.epoll.
HIDDEN_MODULES = (
    *("_curses", "crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "pty", "pwd", "readline"),
    *("resource", "spwd", "syslog", "termios", "tty", "uvloop"),
)
HIDDEN_NAMES = {
    "os": (
        *("chown", "ctermid", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid"),
        *("getgroups", "getloadavg", "getpgid", "getpgrp", "getsid", "getuid", "initgroups", "killpg", "lchown"),
        *("memfd_create", "mkfifo", "mknod", "nice", "openpty", "pipe2", "posix_fadvise", "posix_fallocate"),
        *("pread", "pwrite", "readv", "sched_getaffinity", "sched_setaffinity", "sched_yield", "sendfile", "setegid"),
        *("seteuid", "setgid", "setgroups", "setpgid", "setsid", "setuid", "statvfs", "sync", "sysconf", "ttyname"),
        *("wait3", "wait4", "writev"),
    ),
    "select": ("epoll", "poll"),
    "signal": (
        *("ITIMER_REAL", "SIGALRM", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGTSTP"),
        *("SIGTTIN", "SIGTTOU", "SIGUSR1", "SIGUSR2", "SIGWINCH", "alarm", "getitimer", "pause", "pthread_kill"),
        *("pthread_sigmask", "setitimer", "siginterrupt", "sigpending", "sigtimedwait", "sigwait", "sigwaitinfo"),
    ),
    "time": ("clock_getres", "clock_gettime", "pthread_getcpuclockid", "tzset"),
}
# What Python's own modules use on this system, and therefore keeps its place.
KEPT_NAMES = {
    "os": (
        "WNOHANG",
        "uname",
        "set_blocking",
        "get_blocking",
        "waitpid",
        "WIFSIGNALED",
        "register_at_fork",
        "O_NOFOLLOW",
        "O_NONBLOCK",
    ),
    "signal": ("SIGCHLD",),
    "socket": ("AF_UNIX", "SO_REUSEPORT", "socketpair"),
    "asyncio": ("get_child_watcher", "open_unix_connection", "start_unix_server"),
}
RUN = f"""if True:
    import os, select, signal, sys, time, warnings

    class Hiding:
        def find_spec(self, name, path=None, target=None):
            if name in {HIDDEN_MODULES}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    for name in {HIDDEN_MODULES}:
        sys.modules.pop(name, None)
    for module, names in {HIDDEN_NAMES}.items():
        for name in names:
            if hasattr(sys.modules[module], name):
                delattr(sys.modules[module], name)
    sys.meta_path.insert(0, Hiding())
    # The encoding of files that name none is another one on Windows.
    warnings.filterwarnings("error", category=EncodingWarning, module="trellis")
    from trellis.__main__ import main
    sys.argv = ["trellis", *sys.argv[1:]]
    main()
"""
CLIENT_COMMANDS = [name for name in COMMANDS if name not in SECTIONS["Run in a cluster"]]
# The modules that a client imports, and where they may use what Windows lacks: each looks for it first, or is imported
# for its names alone.
GUARDED = {
    "kube/transport/tls.py": {"os.memfd_create"},
    "sim/child_processes.py": {"signal.pthread_sigmask"},
    "controllers/recommender/plugins/worker_main.py": {
        *("resource", "select.poll", "signal.ITIMER_REAL", "signal.SIGALRM", "signal.setitimer"),
    },
    "controllers/recommender/plugins/worker_process.py": {
        "os.killpg",
        "os.set_blocking",
        "select.poll",
        "signal.SIGKILL",
    },
}


def run_elsewhere(*arguments: str | Path, cwd: Path = ROOT, code: str = RUN) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "warn_default_encoding", "-c", code, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("statement", ["import resource", "import curses", "os.getuid()", "signal.SIGALRM"])
def test_what_is_hidden_is_missing_indeed(statement: str) -> None:
    ended = run_elsewhere(code=RUN.replace("from trellis.__main__ import main", statement))
    assert "No module named" in ended.stderr or "has no attribute" in ended.stderr


def test_a_file_that_is_opened_without_an_encoding_is_found(tmp_path: Path) -> None:
    (tmp_path / "trellis").mkdir()
    (tmp_path / "trellis" / "__init__.py").write_text("def main(): open(__file__).close()\n")
    (tmp_path / "trellis" / "__main__.py").write_text("from trellis import main\n")
    code = RUN.replace("import os,", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import os,", 1)
    assert "EncodingWarning" in run_elsewhere(code=code).stderr


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_help_of_every_client_command_works(name: str) -> None:
    ended = run_elsewhere(name, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"Usage: trellis {name}")


def test_manifests_are_checked() -> None:
    ended = run_elsewhere("check", "examples/web", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["findings"] == []


def test_requests_are_advised_from_a_file() -> None:
    ended = run_elsewhere("recommend", "examples/backtest/usage.csv", "--quiet", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["workloads"]


def test_a_scenario_is_simulated_in_several_processes(tmp_path: Path) -> None:
    scenario = ROOT / "examples/simulate/small.yaml"
    ended = run_elsewhere("simulate", scenario, "--quiet", "--processes", "2", "--output-file", "r.json", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "wrote r.json\n")
    assert json.loads((tmp_path / "r.json").read_text())["kind"] == "SimulationResult"


def test_a_dump_is_simulated_with_its_time_zones() -> None:
    ended = run_elsewhere("simulate", "--dump", "examples/dump/shop.jsonl", "--quiet", "--processes", "1", "-o", "csv")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "shop" in ended.stdout


def test_recommenders_are_scored_and_listed() -> None:
    ended = run_elsewhere("backtest", "examples/backtest/usage.csv", "--quiet", "-o", "csv", "--recommenders=default")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "shop/web,default," in ended.stdout
    assert "seasonal" in run_elsewhere("recommenders").stdout


def test_a_recommender_of_a_package_is_listed_with_what_keeps_it_from_being_used(tmp_path: Path) -> None:
    announce(tmp_path, "weekly-package", {"weekly": "weekly:Weekly"})
    code = RUN.replace("import os,", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import os,", 1)
    ended = run_elsewhere("recommenders", "weekly", code=code)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "cannot be used: recommenders of packages run in processes of their own" in ended.stdout


def test_a_dump_is_explained() -> None:
    ended = run_elsewhere("explain", "vpa/web", "--dump", "examples/explain/shop.jsonl")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "VerticalPodAutoscaler shop/web" in ended.stdout


def test_files_are_written_and_copied(tmp_path: Path) -> None:
    for arguments in (
        ["examples", "--copy-to", "examples"],
        ["schema", "--output-file", "trellis.schema.json"],
        ["install", "--image", "registry.example/trellis:1", "--output-file", "install.yaml"],
        ["crds", "--output-file", "crds.yaml"],
        ["recommend", "examples/backtest/usage.csv", "--quiet", "-o", "html", "--output-file", "sizes.html"],
    ):
        ended = run_elsewhere(*arguments, cwd=tmp_path)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("name", ["explain", "status", "doctor", "top", "dump", "version", "recommend"])
def test_a_missing_kubeconfig_is_one_line(tmp_path: Path, name: str) -> None:
    words = ["vpa/web"] if name == "explain" else []
    ended = run_elsewhere(name, *words, "--kubeconfig", tmp_path / "none")
    assert ended.returncode == (1 if name == "version" else 2)
    assert "no such file" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["status", "doctor"])
def test_a_cluster_that_does_not_answer_is_no_traceback(tmp_path: Path, name: str) -> None:
    config = tmp_path / "config"
    cluster = "{name: c, cluster: {server: 'http://127.0.0.1:1'}}"
    context = "{name: x, context: {cluster: c, user: u}}"
    config.write_text(f"clusters: [{cluster}]\nusers: [{{name: u}}]\ncontexts: [{context}]\ncurrent-context: x\n")
    ended = run_elsewhere(name, "--kubeconfig", config)
    assert ended.returncode == 2
    assert "127.0.0.1:1" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def list_uses(tree: ast.AST) -> Iterator[str]:
    """Modules that a file imports, and attributes of modules that it names, in `HIDDEN_MODULES` and the names above."""
    names = {
        f"{module}.{name}" for table in (HIDDEN_NAMES, KEPT_NAMES) for module, names in table.items() for name in names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in HIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in HIDDEN_MODULES:
            yield node.module
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            if used in names or node.attr == "add_signal_handler":
                yield used


def test_what_a_client_imports_uses_nothing_that_other_systems_lack() -> None:
    code = RUN.replace("    main()\n", "") + (
        f"    import importlib\n    from trellis.cli.main import COMMANDS\n    for name in {CLIENT_COMMANDS}:\n"
        "        importlib.import_module(COMMANDS[name][0])\n"
        "    import trellis.sim.run, trellis.sim.backtest.run, trellis.cli.survey, trellis.kube.client_factory\n"
        "    import trellis.kube.transport.aiohttp_transport, trellis.diagnosis.collection.collector\n"
        "    import trellis.controllers.recommender.plugins.catalog, trellis.cli.dump_reader, trellis.core.explain\n"
        "    for module in list(sys.modules.values()):\n"
        "        if module.__name__.startswith('trellis.'): print(module.__file__)\n"
    )
    ended = run_elsewhere(code=code)
    assert ended.returncode == 0, ended.stderr
    files = [Path(line) for line in ended.stdout.splitlines()]
    assert len(files) > 300
    uses = {file.relative_to(PACKAGE).as_posix(): set(list_uses(ast.parse(file.read_bytes()))) for file in files}
    assert {name: used for name, used in uses.items() if used} == GUARDED
