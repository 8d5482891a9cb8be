"""Runs: what a run says is done literally; runs that are killed, interrupted, or beside another."""

import random
import re

from tests.spark.machine.acts import shared
from tests.spark.machine.checks import check_words, hold, says
from tests.spark.machine.kills import killed_before, pressed_before, watched_writes
from tests.spark.machine.world import KILLED, Answer, World

REBUILD = re.compile(r"lakehouse (rebuild \w+)")
AGAIN = re.compile(r"`lakehouse (run --again [^`]+)`")
INTERRUPTED, PATIENCE = 130, 5.0


@shared(9)
def run(world: World, choice: random.Random) -> None:
    """The lake's daily command, and what it says is to be done."""
    answer = world.type("run", *choice.choice([[], [], [], ["--merge"]]))
    check_words(answer)
    if not world.has_tables:
        hold("no table, no run", answer.code == 2, answer)
        return
    refused = world.refused
    world.note_run()
    hold("a run is refused exactly if it must", (answer.code == 1) == bool(refused), answer)
    hold("a run ends with 0 or 1", answer.code in (0, 1), answer)
    if refused:
        answer = _rebuild(world, answer, refused)
    while any(table.model.changed for table in world.tables if table.model.conf.present):
        answer = _read_again(world, answer)


def _rebuild(world: World, answer: Answer, refused: list[str]) -> Answer:
    """Rebuilds the refused tables as the run says, and runs again; returns the answer."""
    told = sorted({*REBUILD.findall(answer.told)})
    wanted = [f"rebuild {name}" for name in refused]
    hold("a refusal says what to do", told == wanted, answer)
    shown = world.type("status")
    for words, name in zip(wanted, refused, strict=True):
        seen = says(world, name, shown, f"lakehouse {words}")
        hold("status names a refusal", seen, shown, name)
    for words in told:
        done = world.type(*words.split())
        check_words(done)
        hold("a rebuild ends well", done.code == 0, done)
    for table in world.tables:
        if table.name in refused:
            table.model.rebuild()
    done = world.type("run")
    check_words(done)
    world.note_run()
    hold("what was told to do mends it", done.code == 0, done)
    return done


def _read_again(world: World, answer: Answer) -> Answer:
    """Has overwritten files read again as a run says; returns what that said."""
    again = next((of.split() for of in AGAIN.findall(answer.told)), [])
    named = [
        (table, name)
        for table in world.tables
        for name in table.model.changed
        if any(word.endswith(f"/{table.name}/{name}") for word in again)
    ]
    hold("a run names an overwritten file", bool(named), answer)
    shown = world.type("status")
    for table, _ in named:
        seen = says(world, table.name, shown, f"{table.name}: overwritten after it was read")
        hold("status names an overwritten file", seen, shown, table.name)
    done = world.type(*again)
    check_words(done)
    hold("what was told to do mends it", done.code == 0, done)
    for table, name in named:
        model = table.model
        fresh = world.list_landed(table) - {*model.read, *model.waiting, *model.changed}
        new = next(of for of in fresh if of.endswith(f"-{name.rpartition('-')[2]}"))
        model.waiting[new] = model.changed.pop(name)
        model.read.pop(name, None)
        model.gone.add(name)
    world.note_run()
    return done


@shared(3)
def kill(world: World, choice: random.Random) -> None:
    """A run is killed before one of its writes, at times twice, and the next one ends the work."""
    if not world.has_tables:
        return
    for _ in range(choice.choice([1, 1, 2])):
        number = choice.randint(1, choice.choice([20, 100]))
        with killed_before(number):
            answer = world.type(*choice.choice([["run"], ["run"], ["run", "--merge"]]))
        world.note(f"# killed before its write {number}")
        hold("a killed run says no more", answer.code in (0, 1, KILLED), answer)
    run(world, choice)


@shared(2)
def press_ctrl_c(world: World, choice: random.Random) -> None:
    """Ctrl-C is pressed during a run, and the same command again ends the work."""
    if not world.has_tables:
        return
    answer = _interrupt(world, choice.randint(1, choice.choice([20, 80])), None, "run")
    hold("Ctrl-C is no failure", answer.code in (_code_of_run(world), INTERRUPTED), answer)
    if answer.code == INTERRUPTED:
        hold("Ctrl-C says how to go on", "run the same command again" in answer.err, answer)
    run(world, choice)


@shared(2)
def go_on(world: World, choice: random.Random) -> None:
    """A run that goes on is stopped at one of its writes or when nothing comes; a run follows."""
    if not world.has_tables:
        return
    goes_on = ("run", "--continuous", "--interval", "1s")
    answer = _interrupt(world, choice.randint(1, choice.choice([12, 40])), PATIENCE, *goes_on)
    code = _code_of_run(world)
    expected = (code, INTERRUPTED) if "stopped" not in answer.out else (code,)
    hold("a run that goes on ends as a run does", answer.code in expected, answer)
    run(world, choice)


def _interrupt(world: World, number: int, patience: float | None, *command: str) -> Answer:
    """Presses Ctrl-C before a write of a command, or after so many seconds; returns its answer."""
    with pressed_before(number, patience):
        answer = world.type(*command)
    later = "" if patience is None else f", or after {patience:g} s"
    world.note(f"# Ctrl-C before its write {number}{later}")
    check_words(answer)
    return answer


def _code_of_run(world: World) -> int:
    return 1 if world.refused else 0


@shared(1)
def run_twice(world: World, choice: random.Random) -> None:
    """A second run begins while one is at work: it is refused and says who is."""
    if not world.has_tables:
        return
    number, seen = choice.randint(1, 12), list[Answer]()

    def begin_another(write: int) -> None:
        if write == number and not seen:
            seen.append(Answer((), 0, "", ""))
            seen.append(world.type("run"))

    with watched_writes(begin_another):
        answer = world.type("run")
    check_words(answer)
    hold("a run beside another ends well", answer.code == _code_of_run(world), answer)
    for other in seen[1:]:
        check_words(other)
        hold("a second run is refused", other.code in (0, 1), other)
    world.note_run()
