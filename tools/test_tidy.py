"""The lint finds what it should, and this tree is clean."""

from pathlib import Path

import pytest
import tidy

ROOT = Path(__file__).resolve().parent.parent

TABLE = """# Architecture
| room | what lives there | may include |
|---|---|---|
| `src/base` | ground | |
| `src/hash` | digests | `base` |
| `src/store` | all | `base`, `hash` |
"""


@pytest.fixture
def tree(tmp_path):
    def make(files: dict[str, str], table: str = TABLE) -> tidy.Tree:
        for name, text in {"docs/architecture.md": table, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tidy.Tree(tmp_path)

    return make


def texts(findings):
    return [str(one) for one in findings]


@pytest.mark.parametrize("check", sorted(tidy.CHECKS))
def test_the_tree_is_clean(check):
    findings = tidy.CHECKS[check](tidy.Tree(ROOT))
    assert not findings, "\n" + "\n".join(texts(findings))


def test_an_include_of_a_later_room_is_found(tree):
    found = texts(tidy.check_rooms(tree({"src/base/a.cc": '#include "hash/sha.h"\n', "src/store/b.cc": '#include "hash/sha.h"\n'})))
    assert found == ["src/base/a.cc:1: rooms: base may not include hash"]


def test_a_room_outside_the_table_is_found(tree):
    assert "not in the table" in texts(tidy.check_rooms(tree({"src/new/a.cc": ""})))[0]


def test_a_table_that_points_forward_is_found(tree):
    found = texts(tidy.check_rooms(tree({}, TABLE.replace("| ground | |", "| ground | `store` |"))))
    assert "base may include store, which is not before it" in found[0]


def test_a_missing_table_is_found(tree):
    assert "missing" in texts(tidy.check_rooms(tree({}, "# nothing\n")))[0]


def test_a_link_to_a_later_room_is_found(tree):
    found = texts(tidy.check_rooms(tree({"src/hash/CMakeLists.txt": "sy_room(hash DEPS base store LIBS OpenSSL::Crypto)\n"})))
    assert found == ["src/hash/CMakeLists.txt:1: rooms: hash is linked with store, which the table does not allow"]


def test_relative_includes_are_found(tree):
    assert "relative" in texts(tidy.check_rooms(tree({"src/base/a.cc": '#include "../base/x.h"\n'})))[0]


def test_heavy_headers_in_headers_are_found(tree):
    found = texts(tidy.check_heavy(tree({"src/base/log.h": "#include <spdlog/spdlog.h>\n", "src/hash/m.h": '#include "metadata.pb.h"\n'})))
    assert len(found) == 2 and "src/base/log.h:1" in found[0] and "src/hash/m.h:1" in found[1]


def test_a_second_user_of_a_heavy_header_is_found(tree):
    text = "#include <spdlog/spdlog.h>\n"
    found = texts(tidy.check_heavy(tree({"src/base/a.cc": text, "src/base/b.cc": text, "src/base/c_test.cc": text})))
    assert found == ["src/base/b.cc:1: heavy: spdlog/ is already included by src/base/a.cc; one .cc of src/base is enough"]


@pytest.mark.parametrize(
    "line",
    [
        "std::thread worker;",
        "std::this_thread::yield();",
        "auto now = std::chrono::steady_clock::now();",
        "int r = rand();",
        "std::random_device device;",
        "auto t = time(nullptr);",
        "::clock_gettime(CLOCK_MONOTONIC, &t);",
        "getrandom(buffer, 8, 0);",
        "usleep(5);",
    ],
)
def test_forbidden_words_are_found_above_base_only(tree, line):
    found = texts(tidy.check_runtime(tree({"src/hash/a.cc": line + "\n", "src/base/a.cc": line + "\n"})))
    assert len(found) == 1 and found[0].startswith("src/hash/a.cc:1: runtime:")


@pytest.mark.parametrize(
    "line",
    ["// std::thread is not used", 'auto text = "std::thread";', "wall_time(now);", "clock.time(nullptr);", "operand(x);", "/* rand() */ int x;"],
)
def test_innocent_words_pass(tree, line):
    assert tidy.check_runtime(tree({"src/hash/a.cc": line + "\n"})) == []


def test_tests_may_start_threads_but_not_sleep(tree):
    files = {"src/hash/a_test.cc": "std::thread t;\nstd::this_thread::sleep_for(x);\n"}
    found = texts(tidy.check_runtime(tree(files)))
    assert len(found) == 1 and found[0].startswith("src/hash/a_test.cc:2:")


def test_long_files_are_found(tree):
    made = tree({"src/base/a.cc": "\n" * 801, "src/base/b.cc": "\n" * 501, "src/base/c.cc": "\n" * 500})
    assert [one.path for one in tidy.check_size(made)] == ["src/base/a.cc"]
    assert [one.path for one in tidy.size_notes(made)] == ["src/base/b.cc"]


@pytest.mark.parametrize("word", ["TO" + "DO: x", "FIX" + "ME", "a ha" + "ck", "X" + "XX", "/wor" + "k/main", "see /roo" + "t/x"])
def test_marks_and_machine_paths_are_found(tree, word):
    assert len(tidy.check_words(tree({"src/base/a.cc": f"int x;  // {word}\n"}))) == 1


def test_paths_that_only_look_alike_pass(tree):
    assert tidy.check_words(tree({"a.md": "src/work/x /home/me/work/ https://example.com/root/ framework/\n"})) == []


def test_fault_points_are_checked(tree):
    files = {
        "src/store/a.cc": 'SY_POINT(runtime_, "import.begun");\nif (runtime.point("tier.write")) return;\n',
        "src/store/b.cc": 'SY_POINT(runtime_, "import.begun");\nSY_POINT(r, "Import-Done");\nif (runtime.point("tier.write")) return;\n',
    }
    found = texts(tidy.check_points(tree(files)))
    assert len(found) == 2
    assert "src/store/b.cc:1" in found[0] and "stands in src/store/a.cc" in found[0]
    assert "src/store/b.cc:2" in found[1]


def test_headers_that_do_not_compile_alone_are_found(tree):
    files = {
        "src/base/good.h": "// Good.\n#pragma once\n#include <string>\ninline std::string f() { return {}; }\n",
        "src/base/bad.h": "// Bad.\n#pragma once\ninline std::string f() { return {}; }\n",
        "src/base/plain.h": "int x();\n",
        "src/base/proven.h": "// Compiled by the build.\n#pragma once\nbroken here\n",
        "src/base/proven.cc": '#include "base/proven.h"\n',
    }
    found = texts(tidy.check_headers(tree(files)))
    assert len(found) == 3
    assert any("bad.h" in one and "compile alone" in one for one in found)
    assert sum("plain.h" in one for one in found) == 2


def test_unformatted_code_is_found(tree):
    files = {".clang-format": "BasedOnStyle: Google\n", "src/base/a.cc": "int   x ;\n", "src/base/b.cc": "int x;\n"}
    assert [one.path for one in tidy.check_format(tree(files))] == ["src/base/a.cc"]


def test_dead_links_are_found(tree):
    files = {
        "README.md": "[a](docs/a.md) [b](docs/architecture.md)\n",
        "docs/a.md": "[x](b.md) [y](c.md#two-words) [z](c.md#three) [w](https://example.com)\n",
        "docs/c.md": "# Two words\n",
    }
    found = texts(tidy.check_links(tree(files)))
    assert len(found) == 2 and "b.md" in found[0] and "#three" in found[1]


def test_pages_that_nothing_leads_to_are_found(tree):
    files = {"README.md": "[b](docs/architecture.md)\n", "docs/lost.md": "[self](lost.md)\n"}
    assert texts(tidy.check_links(tree(files))) == ["docs/lost.md:1: links: no other page leads here"]
