"""PDF and articles by optional packages: what is read, and that a hostile file stops nothing."""

import io
import os
import subprocess
import sys
import time

import pytest

from toolbridge.tools.web import pdf
from toolbridge.tools.web.pdf import PdfUnreadable, read_pdf
from toolbridge.tools.web.read_page import read_page


def document(content=b"BT /F1 24 Tf 20 100 Td (Hello PDF) Tj ET", pages=1):
    import pypdf
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    def name(text):
        return NameObject(f"/{text}")

    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            name("Type"): name("Font"),
            name("Subtype"): name("Type1"),
            name("BaseFont"): name("Courier"),
        }
    )
    for _ in range(pages):
        page = writer.add_blank_page(200, 200)
        stream = DecodedStreamObject()
        stream.set_data(content)
        page[name("Resources")] = DictionaryObject(
            {name("Font"): DictionaryObject({name("F1"): font})}
        )
        page[name("Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "A title"})
    found = io.BytesIO()
    writer.write(found)
    return found.getvalue()


async def test_text_and_title_of_a_pdf_are_read():
    assert await read_pdf(document(pages=2)) == ("A title", "Hello PDF\n\nHello PDF")


@pytest.mark.parametrize("body", [b"%PDF-1.7 nonsense", b"", document(b"")])
async def test_a_pdf_without_text_is_unreadable(body):
    with pytest.raises(PdfUnreadable):
        await read_pdf(body)


async def test_a_pdf_that_keeps_the_reader_busy_is_stopped(monkeypatch, tmp_path):
    program = tmp_path / "endless.py"
    program.write_text(
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    )
    monkeypatch.setattr(pdf, "_PROGRAM", program)
    monkeypatch.setattr(pdf, "_SECONDS", 2.0)
    with pytest.raises(TimeoutError):
        await read_pdf(b"%PDF-1.7")
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is not kept elsewhere")
def test_the_reader_has_limits_of_its_own():
    code = "import resource, runpy, sys; sys.argv = ['x']; m = runpy.run_path(sys.stdin.readline().strip()); m['limit'](); print(resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU))"
    program = pdf._PROGRAM
    done = subprocess.run(
        [sys.executable, "-c", code], input=f"{program}\n", capture_output=True, text=True, check=True, timeout=60
    )  # fmt: skip
    assert done.stdout.strip() == "(1073741824, 1073741824) (15, 15)"


def test_trafilatura_finds_the_article_where_it_is_installed():
    pytest.importorskip("trafilatura", reason="the extra `reader` is not installed")
    page = "<div class=menu><a href=/>menu</a></div><div>" + "<p>Some words of an article. " * 50
    found = read_page(page.encode(), "text/html", "https://e.org/")
    assert "Some words" in found.text
    began = time.process_time()
    read_page(b"<div>" * 100_000, "text/html", "https://e.org/")
    assert time.process_time() - began < 20
