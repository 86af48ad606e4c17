"""HTML as markdown: what is kept, what is left out, and that hostile pages take linear time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.tools.web.plain_text import one_line, unescape
from toolbridge.tools.web.read_html import read_html

URL = "https://e.org/a/b"


def text_of(page):
    return read_html(page, URL)[1]


def test_rows_of_tables_that_are_too_deep_are_lines():
    open_all, close_all = "<table><tr><td>" * 10, "</table></td></tr>" * 10
    page = f"{open_all}a</td><td>b</td></tr><tr><td>c</td></tr>{close_all}after"
    assert text_of(page) == "a\nb\nc\n\nafter"


@every_row(
    ("page", "text"),
    [
        ("<p>One<p>Two", "One\n\nTwo"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<h1>A</h1><h2>B</h2>text<h6>C", "# A\n\n## B\n\ntext\n\n###### C"),
        ("<h1></h1>text", "text"),
        ("one  \n two\t<b>three</b>four", "one two threefour"),
        ("<b>a</b> <i>b</i>", "a b"),
        ("a&nbsp;b &lt;c&gt; &#x41;&#66; &amp;amp; &unknown; &", "a b <c> AB &amp; &unknown; &"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ol start=3><li>a<li>b</ol>", "3. a\n4. b"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
        ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n- b"),
        ("x <a href='/p?q=1&amp;r=2'>the  link</a>.", "x [the link](https://e.org/p?q=1&r=2)."),
        ("<a href='c'>in</a> <a href='#x'>here</a>", "[in](https://e.org/a/c) here"),
        ("<a href='javascript:alert(1)'>js</a> <a href='data:x,y'>d</a> <a>n</a>", "js d n"),
        ("<a href='/x'></a><a href='/y'> </a>t", "t"),
        ("<a href='/x'>one <a href='/y'>two</a>", "[one](https://e.org/x) [two](https://e.org/y)"),
        ("<a href='/(x)'>p</a>", "[p](https://e.org/%28x%29)"),
        ("<a href='//[bad'>p</a>", "p"),
        ("<a href='/x'><h2>T</h2><p>more</p></a>", "[T more](https://e.org/x)"),
        ("<a href='/x'><img alt='pic'></a>", "[[image: pic)](https://e.org/x)"),
        ("<base href='https://o.org/'><a href='z'>l</a>", "[l](https://o.org/z)"),
        ("run <code>a  b</code>, then <kbd>x</kbd>", "run `a b`, then `x`"),
        ("<code>f(<a href='/t'>T</a>)</code>", "`f(T)`"),
        ("<pre class='language-py'>a\n  b &lt;\n</pre>c", "```py\na\n  b <\n```\n\nc"),
        ("<pre><code class='lang-js'>x <span>y</span>\nz", "```js\nx y\nz\n```"),
        ("<pre>has ``` in</pre>", "````\nhas ``` in\n````"),
        ("<blockquote>q</blockquote>a", "> q\n\na"),
        ("<pre>a<br>b<i>c</i><p>d</pre>", "```\na\nbcd\n```"),
        ("<pre class='language-a'><code class='language-b'>x</code></pre>", "```a\nx\n```"),
        ("<a href='/x'>l<pre>p</pre>", "[l](https://e.org/x)\n\n```\np\n```"),
        ("<code>c<pre>p</pre>", "`c`\n\n```\np\n```"),
        ("a<pre> \n </pre>b", "a\n\nb"),
        ("a<td>b<td>c", "a\nb\nc"),
        ("a<tr>b</tr>c", "a\nb\nc"),
        ("<table><td>a<td>b<tr><td>c</table>", "| a | b |\n| --- | --- |\n| c |"),
        ("<table><tr><td>a<td>b</table>x</table>y", "| a | b |\n| --- | --- |\n\nx\n\ny"),
        ("x<table><tr><td><ul><li>a</ul><td>b</table>", "x\n\n| - a | b |\n| --- | --- |"),
        ("<p>a</p></div>b</li>c", "a\n\nb\nc"),
        ("<ol start='x'><li>a</ol><li>b", "1. a\n\n- b"),
        ("<ol><li>a<ul><li>b</ul><li>c</ol>", "1. a\n  - b\n2. c"),
        ("<img alt=' a \n b '><img alt=''><img>", "[image: a b]"),
        ("<table><tr><th>a|<th>b<tr><td>1<td>2</table>", "| a\\| | b |\n| --- | --- |\n| 1 | 2 |"),
        ("<table><tr><td><p>x</p><p>y</p><td>z</table>", "x\n\ny\n\nz"),
        ("<table><tr><td>only</table>after", "only\n\nafter"),
        ("<table><tr><td><table><tr><td>in</table></table>", "in"),
        ("a<script>if (1 < 2) { '</p>' }</script>b<style>x{}</style>c", "abc"),
        ("a<SCRIPT type='x'>no</SCRIPT >b", "ab"),
        ("a<script>never closed", "a"),
        ("a<template><p>no</p></template><noscript>no</noscript><svg><text>no</text></svg>b", "ab"),
        ("a<!-- no <p> -->b<!--> c<!---> d<!-- x --!> e", "ab c d e"),
        ("a<!-- never closed", "a"),
        ("a<!doctype html>b<?php no ?>c</>d", "abcd"),
        ("1 < 2 and 3 <4> 5", "1 < 2 and 3 <4> 5"),
        ("<p title='a > b'>text", "text"),
        ('<p title="a > b" x=">">text', "text"),
        ("<p title='never closed>text", "text"),
        ("<nav>menu</nav><main>" + "content " * 40 + "</main><footer>f</footer>", "content " * 39 + "content"),
        ("<div hidden>no</div><div style='display: none'>no<div>no</div></div>yes", "yes"),
        ("<span style='VISIBILITY:hidden'>no</span>yes", "yes"),
        ("<button>Copy</button><select><option>1</select>yes", "yes"),
        ("<p>a</div></td></table></ul></a></code>b", "a\n\nb"),
        ("<textarea>no</textarea>yes<title>t</title>", "yes"),
    ],
)  # fmt: skip
def test_what_becomes_of_html(page, text):
    assert text_of(page) == text


def test_the_title_is_the_first_one():
    page = "<title>\n A &amp; <b>B</b> </title><svg><title>no</title></svg><title>no</title>"
    assert read_html(page, URL)[0] == "A & <b>B</b>"


def test_an_article_is_chosen_if_it_is_the_only_one():
    long = "word " * 60
    assert text_of(f"<div>before</div><article>{long}</article>after") == long.strip()
    two = text_of(f"<article>{long}</article><article>{long}</article>end")
    assert two.endswith("end")


def test_a_page_inside_a_menu_that_is_never_closed_is_read():
    assert "content" in text_of("<nav><a href='/x'>menu</a><p>" + "content " * 100)


def seconds(page):
    began = time.process_time()
    read_html(page, URL)
    return time.process_time() - began


MANY = 40_000
HOSTILE = {
    "deep divs": "<div>" * MANY,
    "deep lists": "<ul><li>" * MANY + "x",
    "deep tables": "<table><tr><td>" * MANY + "x" * 1000,
    "deep quotes": "<blockquote>" * MANY + "x",
    "deep links": "<a href=/x>" * MANY,
    "deep code": "<code>x" * MANY,
    "deep skipped": "<svg>" * MANY,
    "unclosed comments": "<!--" * MANY,
    "unclosed tags": "<a " * MANY,
    "unclosed quotes": "<a b='" * MANY,
    "mixed quotes": "<p a='\"" * MANY,
    "unclosed scripts": "<script>" * MANY,
    "declarations": "<!" * MANY,
    "less than": "<" * MANY * 5,
    "closing": "</div>" * MANY,
    "huge attribute": "<a href='" + "x" * 800_000 + "'>x</a>",
    "many attributes": "<a " + "b=c " * 200_000 + ">x",
    "equals signs": "<a " + "=" * 400_000 + ">x",
    "spaces": "<a" + " " * 400_000 + "x" + " " * 400_000,
    "entities": "&" * 200_000 + "&amp" * MANY + "&#99999999999" * 1000,
    "long reference": "&#" + "9" * 400_000 + ";",
    "long hex reference": "&#x" + "f" * 400_000 + ";",
    "wide table": "<table><tr>" + "<td>x" * MANY + ("<tr><td>y" * MANY),
    "text": "x" * 800_000,
    "words": "x " * 400_000,
    "brackets": "<a href=x>" + "]" * 400_000 + "</a>",
    "pre": "<pre>" + "`" * 400_000,
    "data urls": "<p>" + "data:a/b" * 80_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_take_linear_time(name):
    page = HOSTILE[name]
    assert seconds(page) < 20, "quadratic time would be many times as much"


def test_twice_the_page_takes_about_twice_the_work():
    page = "<div><p>Some <a href='/x'>link</a> text &amp; more</p><ul><li>a</ul></div>" * 1000
    one, two = (calls_made(lambda size=size: read_html(page * size, URL)) for size in (1, 2))
    assert one < two < 2.2 * one


@given(st.lists(st.sampled_from([*"<>/!-='\"ab &;#x1 \n", "<a href='", "<td>", "<tr>", "<table>", "</table>", "</a>", "<pre>", "</pre>", "<li>", "<code>", "<main>", "</main>", "<nav>", "<h1>"]), max_size=60).map("".join))  # fmt: skip
def test_no_page_raises(page):
    read_html(page, URL)


@every_row(
    ("text", "line"),
    [
        ("<b>a</b>\n b", "a b"),
        ("a < b", "a < b"),
        ("x" * 20, "xxxxxxxxx…"),
        ("&lt;tag&gt;", "<tag>"),
        ("<!-- c -->a", "a"),
        ("a\u200bb\u2066c", "abc"),
    ],
)
def test_one_line_is_plain(text, line):
    assert one_line(text, 10) == line


def test_references_of_thousands_of_digits_are_replaced():
    assert unescape("&#" + "1" * 5000 + ";x") == "\ufffdx"
