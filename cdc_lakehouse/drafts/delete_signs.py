"""Columns by which rows may say that they are deletes: an operation, a flag, a time, or a state.

Which names and values mean what is a table of words, in several languages and without accents.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timezone
from itertools import chain, islice
from typing import NamedTuple

from lakehouse.storage.names import quote
from lakehouse.words import render_count

_NAMES = {
    "operation": "op operation opcode optype oper changetype changemode cdcoperation cdcop dml"
    " dmltype crud iud mutation action rowkind aktion vorgang accion azione",
    "flag": "deleted isdeleted isdelete isdel del dflag softdeleted deletedflag deleteflag"
    " deletionflag delflag delflg delind markedfordeletion deletionindicator removed isremoved"
    " tombstone gone void voided loekz lvorm loeschkennzeichen loschkennzeichen loeschkz loschkz"
    " geloscht geloescht entfernt supprime supprimee efface borrado eliminado eliminato cancellato"
    " excluido apagado verwijderd usuniety slettet raderad",
    "moment": "geloschtam geloeschtam loeschdatum loschdatum supprimele datesuppression"
    " fechaborrado borradoen eliminadoen datacancellazione",
    "state": "status state rowstatus recordstatus active isactive inactive isinactive enabled"
    " isenabled disabled archived isarchived valid isvalid expired obsolete iscurrent storniert"
    " aktiv istaktiv inaktiv actif estactif inactif activo inactivo attivo inattivo ativo zustand"
    " etat estado stato kennzeichen",
}
"""Kinds of columns by name, of letters alone: `_deleted` and `isDeleted` are found by one word."""
_VALUES = {
    "delete": "d -d del delete deleted deletes remove removed erase erased purge purged destroy"
    " destroyed drop dropped tombstone geloscht geloescht loschen loeschen losche entfernt"
    " supprime supprimee supprimer efface borrar borrado eliminar eliminado eliminato cancellato"
    " excluido apagado verwijderd usuniety slettet raderad baja",
    "other": "i +i insert inserted c create created r read u +u update updated upsert merge merged"
    " add added chg change changed modify modified new alta",
    "gone": "inactive inaktiv inactif inactivo inattivo disabled deactivated archived obsolete",
    "nothing": "null none nil nan nat n/a na - -- \\n 0 0.0 false f no n unknown",
}
_DELETES, _OTHERS, _GONE, _NOTHING = (frozenset(words.split()) for words in _VALUES.values())
_ANSWERS = (
    ("true", "false"), ("1", "0"), ("1.0", "0.0"), ("y", "n"), ("yes", "no"), ("t", "f"),
    ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no"), ("x", "-"),
)  # fmt: skip
"""Words of a flag that is set, and of one that is not."""
_DELETED = {word for word in _DELETES if len(word) > 5}
_LONG_WORDS = {word for word in (*_DELETES, *_GONE) if len(word) > 2}
_MOMENT = re.compile(
    r".*(deleted?|deletion|removed?|discarded|trashed|purged|^del)"
    r"(at|on|dt|ts|date|time|datetime|timestamp)|date(deleted|removed)"
)
_OPERATION_WORDS = frozenset({"op", "oper", "operation", "iud", "dml", "crud"})
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_TRUE, _FALSE = {yes: no for yes, no in _ANSWERS}, {no: yes for yes, no in reversed(_ANSWERS)}
_NO_WORD, _CAMEL = re.compile(r"[\W_]+"), re.compile(r"(?<=[a-z])(?=[A-Z])")
_STATES = ("flag", "state")
_BEGINS_AS_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_YEAR = re.compile(r"(?<!\d)(\d{4})(?:\D|$|\d{4}(?!\d))")
_FIRST_YEAR, _MOST_STATES, _MOST_SHOWN, _LONGEST_SHOWN = 1980, 200, 5, 20


class DeleteSign(NamedTuple):
    """A column by which rows say that they are deletes.

    Attributes:
        column: its name.
        condition: SQL that is true on deletes; empty where its values are not understood.
        deletes: the values of deletes in the sample.
        upserts: SQL that is true on the upserts, where the column has every row's operation.
        type: the type of its values, where these are times.
        note: what a person has to check of it.
    """

    column: str
    condition: str
    deletes: Sequence[str] = ()
    upserts: str = ""
    note: str = ""
    type: str | None = None

    @property
    def is_operation(self) -> bool:
        """Whether the column has the operation of every row, and no fact of the row."""
        return bool(self.upserts)


def find_delete_signs(
    rows: Sequence[Mapping[str, object]],
) -> tuple[DeleteSign | None, dict[str, str]]:
    """The sign by which rows are taken for deletes; of other columns, the values that may be signs.

    Operations count more than flags, flags than times. Where a column has the operations, a state
    is asked about only if some value of it speaks of deletes.
    """
    columns = dict.fromkeys(name for row in rows for name in row)
    seen = {name: [row[name] for row in rows if row.get(name) is not None] for name in columns}
    kinds = {name: kind for name in columns if (kind := _find_kind(name))}
    named = [(name, read) for kind, read in _READERS.items() for name in columns
             if kinds.get(name) == kind]  # fmt: skip
    signs = {name: read(name, seen[name]) for name, read in named}
    first = next((sign for sign in signs.values() if sign.condition), None)
    by_name = () if first and first.is_operation else kinds
    others = {name: values for name, values in seen.items() if not first or name != first.column}
    asked = {
        name: f"has {_show_values(map(_to_text, values))}"
        for name, values in others.items()
        if values and (name in by_name or _speaks_of_deletes(signs.get(name), values))
    }
    if first is None:
        return None, asked
    return _judge_by_rows(first, seen[first.column], len(rows)), asked


def _speaks_of_deletes(sign: DeleteSign | None, values: Sequence[object]) -> bool:
    """Whether values are those of deletes.

    By the column's sign, by words of few texts, or as all are operations such as `I` and `D`.
    """
    if sign is not None and sign.deletes:
        return True
    short = {v for v in values if isinstance(v, str) and len(v) <= _LONGEST_SHOWN}
    texts = {_fold_word(text) for text in short if len(short) <= _MOST_STATES}
    are_operations = texts <= {*_DELETES, *_OTHERS} and bool(texts & _DELETES and texts & _OTHERS)
    return are_operations or not _LONG_WORDS.isdisjoint(chain(*map(_NO_WORD.split, texts)))


def _find_kind(name: str) -> str | None:
    """The kind of a column by its name, or by a word of it; a state is only asked about."""
    words = _NO_WORD.split(_fold_word(_CAMEL.sub("_", name)))
    letters = "".join(filter(str.isalpha, "".join(words)))
    if kind := _KINDS.get(letters) or ("moment" if _MOMENT.fullmatch(letters) else None):
        return kind
    if not _OPERATION_WORDS.isdisjoint(words):
        return "operation"
    is_state = any(len(w) > 5 and _KINDS.get(w) in _STATES for w in words)
    return "state" if is_state or any(word in letters for word in _DELETED) else None


def _judge_by_rows(sign: DeleteSign, values: Sequence[object], rows: int) -> DeleteSign:
    """The sign with its note; rows without an operation are upserts if the sample has such."""
    upserts = sign.upserts
    if upserts and len(values) < rows:
        upserts += f" OR {_to_sql_name(sign.column)} IS NULL"
    return sign._replace(upserts=upserts, note=_describe_sign(sign, values, rows))


def _describe_sign(sign: DeleteSign, values: Sequence[object], rows: int) -> str:
    """How many rows are deletes by a sign, and by which values that may mean something else."""
    texts = Counter(map(_to_text, values))
    count = sum(texts[text] for text in sign.deletes)
    are = "is a delete" if count == 1 else "are deletes"
    some = f"{count:,} of {render_count(rows, 'row')} {are}"
    notes = [some if count else "no row of the sample is a delete"]
    if sign.condition.endswith("NULL") and (odd := [*filter(_is_odd, sign.deletes)]):
        notes.append(f"also those with {_show_values(odd)}")
    return "; ".join(notes)


def _is_odd(text: str) -> bool:
    """Whether a time may stand for none: a word such as NULL, or a year that is no year of now."""
    year = _YEAR.search(text)
    is_far = year is not None and not _FIRST_YEAR <= int(year[1]) <= datetime.now(timezone.utc).year
    return is_far or _fold_word(text) in {"", *_NOTHING}


def _read_operation(name: str, values: Sequence[object]) -> DeleteSign:
    texts = {text: _fold_word(text) for text in map(_to_text, values)}
    if not texts or not {*texts.values()} <= {*_DELETES, *_OTHERS}:
        return DeleteSign(name, "")
    deletes = [text for text, word in texts.items() if word in _DELETES]
    others = [text for text in texts if text not in deletes]
    condition = _list_words(name, ["D", "DELETE", "DELETED"], deletes)
    upserts = _list_words(name, ["I", "INSERT", "U", "UPDATE"], others)
    return DeleteSign(name, condition, deletes, upserts)


def _list_words(name: str, usual: Sequence[str], seen: Iterable[str]) -> str:
    """The condition that a column has one of some words, in any case."""
    spelled = dict.fromkeys([*usual, *(text.strip().upper() for text in seen)])
    listed = ", ".join(f"'{word}'" for word in spelled)
    return f"upper(trim({_to_sql_name(name)})) IN ({listed})"


def _read_flag(name: str, values: Sequence[object]) -> DeleteSign:
    texts = {text: _fold_word(text) for text in map(_to_text, values) if text.strip()}
    if not texts or not {*texts.values()} <= {*_TRUE, *_FALSE}:
        return DeleteSign(name, "")
    deletes = [text for text, word in texts.items() if word in _TRUE]
    if all(isinstance(value, bool) for value in values):
        return DeleteSign(name, _to_sql_name(name), deletes)
    if {*texts.values()} <= {"0", "1", "0.0", "1.0"}:
        return DeleteSign(name, f"{_to_sql_name(name)} = 1", deletes)
    like, word = next(iter(texts.items()))
    condition = _compare(name, deletes or [_spell_like(_FALSE[word], like)])
    return DeleteSign(name, condition, deletes)


def _read_moment(name: str, values: Sequence[object]) -> DeleteSign:
    texts = [*dict.fromkeys(map(_to_text, values))]
    kind = type_of_times(texts) if texts else "timestamp"
    return DeleteSign(name, f"{_to_sql_name(name)} IS NOT NULL", texts, type=kind)


_READERS = {"operation": _read_operation, "flag": _read_flag, "moment": _read_moment}


def type_of_times(texts: Sequence[str]) -> str | None:
    """`date` or `timestamp`, where all the texts are such; None otherwise."""
    if not all(_BEGINS_AS_DAY.match(text) for text in texts):
        return None
    for kind, parse in (("date", date.fromisoformat), ("timestamp", datetime.fromisoformat)):
        with suppress(ValueError):
            for text in texts:
                parse(text.replace("Z", "+00:00"))
            return kind
    return None


def _compare(name: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    compared = f"= {listed}" if len(words) == 1 else f"IN ({listed})"
    return f"{_to_sql_name(name)} {compared}"


def _to_sql_name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quote(name)


def _spell_like(word: str, like: str) -> str:
    """A word in capitals where another one is, or with a capital at its beginning."""
    return word.upper() if like.isupper() else word.title() if like[:1].isupper() else word


def _fold_word(text: str) -> str:
    """The text in small letters, without accents and blanks around it."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in plain if not unicodedata.combining(letter)).strip()


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show_values(texts: Iterable[str]) -> str:
    """The first few different texts, in quotes and shortened."""
    first = [*islice(dict.fromkeys(texts), _MOST_SHOWN + 1)]
    shown = [repr(text[:_LONGEST_SHOWN]) for text in first[:_MOST_SHOWN]]
    return ", ".join([*shown, "…"] if len(first) > _MOST_SHOWN else shown)
