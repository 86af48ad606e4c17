"""Create, list, change and revoke the keys of a gateway's users, with scopes and limits.

The gateway does not have to run, and need not be restarted: a change takes effect within a second.
Once a key exists, the gateway requires one from every client. The key of the configuration (`key`)
keeps working and has no limits.
"""

import argparse
import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from toolbridge.accounting.limits_of_keys import (
    MEASURES,
    KeyLimit,
    LimitState,
    Measure,
    parse_limit,
    shown,
)
from toolbridge.cli import options
from toolbridge.core.close_names import did_you_mean
from toolbridge.core.errors import MalformedRequest, ToolbridgeError
from toolbridge.core.json import JsonObject, dumps
from toolbridge.core.redaction import Redactor
from toolbridge.policy.key_scopes import KeyScopes
from toolbridge.state_dir import state_dir
from toolbridge.store import StoreUnavailable
from toolbridge.store.engines import KEYS_FILE, Engines
from toolbridge.store.keys import PREFIX, KeyRecord, KeyStore, new_key
from toolbridge.store.private_files import folder_fault

_HELP = {
    "create": (
        "create a key and show it once",
        (
            "The key is printed and never stored. Without scopes it may use everything, and without "
            "limits there are none. An example: `toolbridge key create alice --tokens 2M/day "
            "--models 'ollama/*'`."
        ),
    ),
    "set": (
        "replace scopes or limits of a key",
        (
            "What is not given stays. An example: `toolbridge key set alice --requests 500/day "
            "--clear tokens`."
        ),
    ),
    "list": (
        "list the keys",
        "The keys themselves are not stored; the first characters are shown.",
    ),
    "show": (
        "show a key and what it has used",
        "The use is that of the current window of each limit.",
    ),
    "revoke": (
        "revoke a key",
        "It stops working within a second and cannot be used again; its name can get a new key.",
    ),
}
_TITLES = ("NAME", "KEY", "STATE", "CREATED", "EXPIRES", "LIMITS", "SCOPES")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = options.add_subcommands(parser, _HELP)
    create = add("create")
    create.add_argument("name", metavar="NAME", help="who or what the key is for")
    _add_grants(create)
    change = add("set")
    change.add_argument("name", metavar="NAME", help="the name or the id of the key")
    _add_grants(change)
    change.add_argument(
        "--clear", nargs="+", default=[], choices=_CLEARED, metavar="WHAT",
        help=f"remove a scope or a limit: {', '.join(_CLEARED)}",
    )  # fmt: skip
    listed = add("list")
    listed.add_argument("--json", action="store_true", help="print one JSON line per key")
    for name in ("show", "revoke"):
        add(name).add_argument("name", metavar="NAME", help="the name or the id of the key")


_CLEARED = ("models", "routes", "tools", *MEASURES, "concurrency", "expires")


def _add_grants(parser: argparse.ArgumentParser) -> None:
    patterns = (
        ("models", "models that the key may use: addresses, names, or names of [map]"),
        ("routes", "paths that it may use, such as /v1/chat/*"),
        ("tools", "tools that its requests may offer to a model"),
    )
    for name, text in patterns:
        parser.add_argument(f"--{name}", nargs="+", metavar="GLOB", help=text)
    for what in MEASURES:
        parser.add_argument(
            f"--{what}", action="append", metavar="N/WINDOW",
            help=f"the most {what} per minute, day or month; may be given for each window",
        )  # fmt: skip
    parser.add_argument("--concurrency", type=int, metavar="N", help="the most requests at a time")
    parser.add_argument("--expires", metavar="DATE", help="the first day (UTC) without the key")


def run(args: argparse.Namespace) -> int:
    _warn_of_owner(state_dir(os.environ))
    try:
        return asyncio.run(_with_store(_COMMANDS[args.what], args))
    except StoreUnavailable as error:
        raise _KeysUnreadable(
            f"the keys cannot be used: {error}. A running gateway goes on to admit the keys that it "
            "has read, also a key that should be revoked; `toolbridge stop` ends all access. A "
            "gateway that starts now admits no created key; restore the file from a backup, or remove it and create new keys; if they are "
            "on a server, start it or correct `ledger`"
        ) from None


_AS_SERVICE = (
    "sudo systemd-run --pipe --wait --collect --quiet -p DynamicUser=yes -p User={user} "
    "-p StateDirectory=toolbridge -p Environment=XDG_STATE_HOME=/var/lib {program} key …"
)
"""The command of another service with the same user: only services see `/var/lib/private`."""


def _warn_of_owner(folder: Path | None) -> None:
    """Print a warning if the state directory is another user's, whose gateway must read the keys."""
    try:
        owner = -1 if folder is None else folder.stat().st_uid
    except OSError:  # the store reports a folder that cannot be used
        return
    if folder is None or not hasattr(os, "geteuid") or owner == os.geteuid():
        return
    user, program = _user_name(owner), Path(sys.argv[0]).absolute()
    if folder.resolve().is_relative_to("/var/lib/private"):
        command = _AS_SERVICE.format(user="toolbridge", program=program)
    else:
        command = f"sudo -u '{user}' env XDG_STATE_HOME={folder.parent} {program} key …"
    print(
        f"toolbridge: {folder} belongs to another user ({user}), whose gateway may be unable to read "
        f"what this command writes; run it as that user: {command}",
        file=sys.stderr,
    )


def _user_name(uid: int) -> str:
    import pwd  # not on Windows

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"  # sudo takes a number in this form


class _KeysUnreadable(ToolbridgeError):
    kind = "config"


async def _with_store(
    command: Callable[[argparse.Namespace, KeyStore], Awaitable[None]], args: argparse.Namespace
) -> int:
    folder = state_dir(os.environ)
    store = _engines(args).keys()
    if store is None:
        raise MalformedRequest("there is no state directory; set HOME or XDG_STATE_HOME")
    if store.local and folder is not None:
        _check_folder(folder, writes=args.what == "create")
    try:
        await command(args, store)
    finally:
        await store.close()
    return 0


def _check_folder(folder: Path, *, writes: bool) -> None:
    """Raise if the file of the keys cannot be opened; without a fault, no file means no keys."""
    fault = folder_fault(folder) if writes else ""
    try:
        (folder / KEYS_FILE).stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        fault = error.strerror or str(error)
    if fault:
        raise _KeysUnreadable(
            f"the keys cannot be used: the state directory {folder} cannot be used ({fault}); make it "
            "a directory of yours that you can write to, or set XDG_STATE_HOME to that of the gateway"
        )


def _engines(args: argparse.Namespace) -> Engines:
    """Return the engines of the configuration: keys and budgets may be on servers."""
    config, _ = options.load_with_source(args)
    return Engines(config, state_dir(os.environ), os.environ)


# ── commands ─────────────────────────────────────────────────────────────────


async def _create(args: argparse.Namespace, store: KeyStore) -> None:
    name = args.name
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}", name) is None or name.startswith(PREFIX):
        raise MalformedRequest(
            "must be 1 to 64 letters, digits and `_.@+-`, and begin with a letter or digit",
            where="NAME",
        )
    if any(r.name == name and r.revoked is None for r in await store.all()):
        raise MalformedRequest(
            f"there is a key {name!r} already; change it with `toolbridge key set {name}`, or "
            f"revoke it first with `toolbridge key revoke {name}`",
            where="NAME",
        )
    record, secret = new_key(name, time.time())
    record = _granted(record, args)
    # Printed first: a key that is stored and was never shown would lock the gateway for everyone.
    print(f"{secret}\n")
    print(f"This is the key {name!r}. It is not stored and not shown again.")
    print(
        f"Limits: {_limits(record)}; scopes: {_scopes(record)}; expires: {_expiry(record)}.",
        flush=True,
    )
    try:
        await store.put(record)
    except StoreUnavailable:
        # A server may have stored it before the connection broke.
        what = (
            "was not stored and is not valid; do not use the key printed above"
            if store.local
            else "may not be stored; see `toolbridge key list`, and revoke it if it is there"
        )
        print(f"toolbridge: the key {name!r} {what}", file=sys.stderr)
        raise


async def _change(args: argparse.Namespace, store: KeyStore) -> None:
    record = _granted(await _find(store, args.name), args)
    await store.put(record)
    print(f"{record.name}: limits: {_limits(record)}; scopes: {_scopes(record)}")


async def _list(args: argparse.Namespace, store: KeyStore) -> None:
    records = await store.all()
    if args.json:
        for record in records:
            print(dumps(_as_json(record)))
    elif records:
        _print_table([_TITLES, *(_cells(record) for record in records)])
    else:
        print("there are no keys; create one with `toolbridge key create NAME`")


async def _show(args: argparse.Namespace, store: KeyStore) -> None:
    record = await _find(store, args.name)
    for title, cell in zip(_TITLES, _cells(record), strict=True):
        print(f"{title.lower():<10}{cell}")
    engines = _engines(args)
    values = engines.store(Redactor())
    try:
        if record.limits and (open_budgets := engines.budgets) is not None:
            budgets = open_budgets()
            states = await budgets.states(record, time.time())
            await budgets.close()
            print("\n".join(_state(state) for state in states))
    finally:
        await values.close()


async def _revoke(args: argparse.Namespace, store: KeyStore) -> None:
    record = await _find(store, args.name)
    if record.revoked is not None:
        day = _day(record.revoked)
        print(f"the key {record.name!r} ({record.prefix}…) was revoked already, on {day}")
        return
    await store.put(msgspec.structs.replace(record, revoked=time.time()))
    print(
        f"the key {record.name!r} ({record.prefix}…) is revoked; it stops working within a second"
    )


_COMMANDS = {
    "create": _create, "set": _change, "list": _list, "show": _show, "revoke": _revoke,
}  # fmt: skip


async def _find(store: KeyStore, given: str) -> KeyRecord:
    """Return the newest key with this name or id; one that is not revoked if there is one."""
    wanted = given.removeprefix(PREFIX).partition("_")[0] if given.startswith(PREFIX) else given
    records = await store.all()
    found = [record for record in records if wanted in {record.name, record.id}]
    if not found:
        meant = did_you_mean(given, [record.name for record in records])
        raise MalformedRequest(
            f"there is no key {given!r}; see `toolbridge key list`{meant}", where="NAME"
        )
    return next((record for record in reversed(found) if record.revoked is None), found[-1])


def _granted(record: KeyRecord, args: argparse.Namespace) -> KeyRecord:
    """Return `record` with the scopes and limits of the command line."""
    cleared = set(getattr(args, "clear", ()))
    given: dict[str, tuple[str, ...]] = {
        name: tuple(getattr(args, name) or ())
        for name in KeyScopes.__struct_fields__
        if getattr(args, name) or name in cleared
    }
    limits = [
        one for one in record.limits if one.what not in cleared and not getattr(args, one.what)
    ]
    for name, patterns in given.items():
        if not all(pattern.strip() for pattern in patterns):
            text = f"a pattern is empty; leave --{name} out to allow all"
            raise MalformedRequest(text, where=f"--{name}")
    for what in MEASURES:
        limits += _limits_given(what, getattr(args, what) or ())
    concurrency = 0 if "concurrency" in cleared else record.concurrency
    expires = None if "expires" in cleared else record.expires
    if args.concurrency is not None and args.concurrency < 1:
        raise MalformedRequest("must be at least 1", where="--concurrency")
    return msgspec.structs.replace(
        record,
        scopes=msgspec.structs.replace(record.scopes, **given),
        limits=tuple(limits),
        concurrency=args.concurrency or concurrency,
        expires=_date(args.expires) if args.expires else expires,
    )


def _limits_given(what: Measure, texts: Iterable[str]) -> Iterable[KeyLimit]:
    new: dict[str, KeyLimit] = {}
    for limit in (parse_limit(what, text) for text in texts):
        if limit.per in new:
            text = f"is given twice per {limit.per}; give one amount for each window"
            raise MalformedRequest(text, where=f"--{what}")
        new[limit.per] = limit
    return new.values()


def _date(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MalformedRequest("must be a date such as 2027-01-31", where="--expires") from None
    at = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if at <= time.time():
        raise MalformedRequest(f"{text} is in the past", where="--expires")
    return at


# ── output ───────────────────────────────────────────────────────────────────


def _cells(record: KeyRecord) -> tuple[str, ...]:
    return (
        record.name,
        f"{record.prefix}…",
        record.state(time.time()),
        _day(record.created),
        _expiry(record),
        _limits(record),
        _scopes(record),
    )


def _limits(record: KeyRecord) -> str:
    found = [str(limit) for limit in record.limits]
    found += [f"{record.concurrency} at a time"] if record.concurrency else []
    return ", ".join(found) or "none"


def _scopes(record: KeyRecord) -> str:
    scopes = msgspec.structs.asdict(record.scopes)
    return ", ".join(f"{n} {' '.join(p)}" for n, p in scopes.items() if p) or "all"


def _expiry(record: KeyRecord) -> str:
    return "never" if record.expires is None else _day(record.expires)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _state(state: LimitState) -> str:
    limit, held = state.limit, state.held
    running = f" and {shown(limit.what, held)} reserved" if held else ""
    until = datetime.fromtimestamp(state.resets, UTC).strftime("%Y-%m-%d %H:%M UTC")
    used = shown(limit.what, state.used)
    return f"used      {used}{running} of {_amount(limit)} per {limit.per}; resets {until}"


def _amount(limit: KeyLimit) -> str:
    return shown(limit.what, limit.amount)


def _as_json(record: KeyRecord) -> JsonObject:
    return {
        "id": record.id,
        "name": record.name,
        "state": record.state(time.time()),
        "created": record.created,
        "expires": record.expires,
        "limits": [str(limit) for limit in record.limits],
        "concurrency": record.concurrency,
        **{name: list(value) for name, value in msgspec.structs.asdict(record.scopes).items()},
    }


def _print_table(table: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[at]) for row in table) for at in range(len(_TITLES))]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
