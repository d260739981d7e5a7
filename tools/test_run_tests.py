"""The counter counts: a failure or a skip is never lost."""

import run_tests

CTEST = """<testsuite><testcase name="a" status="run"><system-out>
[ RUN      ] S.x
a_test.cc:5: Skipped
not root

[  SKIPPED ] S.x (0 ms)
[  PASSED  ] 3 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] S.x
</system-out></testcase>
<testcase name="b" status="fail"><failure message="x"/><system-out>boom</system-out></testcase>
<testcase name="c" status="notrun"><skipped message="Disabled"/></testcase></testsuite>"""

PYTEST = """<testsuites><testsuite><testcase classname="t.a" name="one"/><testcase classname="t.a" name="two"><failure/></testcase>
<testcase classname="t.a" name="three"><error/></testcase><testcase classname="t.a" name="four"><skipped message="no tmpfs"/></testcase>
</testsuite></testsuites>"""


def test_ctest_results_are_counted(tmp_path):
    (tmp_path / "r.xml").write_text(CTEST)
    totals = run_tests.Totals()
    run_tests.collect_ctest(tmp_path / "r.xml", totals)
    assert (totals.passed, totals.failed, totals.cases) == (1, ["ctest b"], 3)
    assert totals.skipped == ["S.x: not root", "c: Disabled"]


def test_pytest_results_are_counted(tmp_path):
    (tmp_path / "r.xml").write_text(PYTEST)
    totals = run_tests.Totals()
    run_tests.collect_pytest(tmp_path / "r.xml", totals)
    assert totals.passed == 1 and totals.failed == ["pytest t/a::two", "pytest t/a::three"]
    assert totals.skipped == ["t/a::four: no tmpfs"]


def test_a_stage_that_dies_without_results_is_a_failure(tmp_path):
    totals = run_tests.Totals()
    run_tests.tests("stage", ["false"], tmp_path / "none.xml", run_tests.collect_pytest, totals)
    assert totals.failed == ["stage (exit 1)"]


def test_a_stage_that_succeeds_without_results_is_a_failure(tmp_path):
    totals = run_tests.Totals()
    run_tests.tests("stage", ["true"], tmp_path / "none.xml", run_tests.collect_pytest, totals)
    assert totals.failed == ["stage (exit 0)"]
