"""What people do to a lake: each act changes the world and its model, and checks the answer."""

import json
import random
import re
import shutil
from dataclasses import replace

from tests.spark.machine.checks import check_words, hold, read_plainly
from tests.spark.machine.kills import killed_before, pressed_before, watched_writes
from tests.spark.machine.source import KEYS
from tests.spark.machine.world import KILLED, Act, Answer, World

ADVICE = re.compile(r"`lakehouse ([^`]+)`|: lakehouse ([^;,`]+?)(?:[;,]|$)")
WHY, INTERRUPTED, PATIENCE = "known", 130, 5.0
ACTS: dict[str, tuple[int, Act]] = {}
"""By name: how often an act is chosen, and the act."""


def act(often: int) -> "object":
    """Registers an act."""

    def register(function: Act) -> Act:
        ACTS[function.__name__] = often, function
        return function

    return register


def follow_advice(world: World, answer: Answer) -> None:
    """Does literally what a refused command says is to be done, and runs again."""
    told = " ".join(answer.err.split())
    wanted = [one or other for one, other in ADVICE.findall(told)]
    wanted = [words for words in wanted if words.startswith("rebuild t")]
    hold("a refusal says what to do", bool(wanted), answer)
    rebuild(world)
    done = world.type("run")
    check_words(done)
    world.model.run()
    hold("what was told to do mends it", done.code == 0, done)


@act(9)
def run(world: World, choice: random.Random) -> None:
    """The lake's daily command."""
    words = ["run", *choice.choice([[], [], [], ["--merge"]])]
    answer = world.type(*words)
    check_words(answer)
    if not world.model.conf.present:
        hold("no table, no run", answer.code == 2, answer)
        return
    refused = world.model.refuses
    world.model.run()
    hold("a run is refused exactly if it must", (answer.code == 1) == refused, answer)
    hold("a run ends with 0 or 1", answer.code in (0, 1), answer)
    if refused:
        follow_advice(world, answer)


@act(10)
def drop(world: World, choice: random.Random) -> None:
    """The source sends a file, and a run often follows."""
    lines = [] if choice.random() < 0.1 else world.source.send(choice)
    name = world.next_name()
    world.drop(name, world.source.render(lines))
    world.model.waiting[name] = lines
    if choice.random() < 0.5:
        run(world, choice)


@act(3)
def kill(world: World, choice: random.Random) -> None:
    """A run is killed before one of its writes, at times twice, and the next one ends the work."""
    if not world.model.conf.present or world.model.refuses:
        return
    for _ in range(choice.choice([1, 1, 2])):
        number = choice.randint(1, 25)
        with killed_before(number):
            answer = world.type(*choice.choice([["run"], ["run"], ["run", "--merge"]]))
        world.note(f"# killed before its write {number}")
        hold("a killed run says no more", answer.code in (0, 1, KILLED), answer)
    run(world, choice)


@act(2)
def press_ctrl_c(world: World, choice: random.Random) -> None:
    """Ctrl-C is pressed during a run, and the same command again ends the work."""
    if not world.model.conf.present:
        return
    answer = _interrupt(world, choice.randint(1, 20), None, "run")
    hold("Ctrl-C is no failure", answer.code in (_of_run(world), INTERRUPTED), answer)
    if answer.code == INTERRUPTED:
        hold("Ctrl-C says how to go on", "run the same command again" in answer.err, answer)
    run(world, choice)


@act(2)
def go_on(world: World, choice: random.Random) -> None:
    """A run that goes on is stopped at one of its writes or when nothing comes; a run follows."""
    if not world.model.conf.present:
        return
    goes_on = ("run", "--continuous", "--interval", "1s")
    answer = _interrupt(world, choice.randint(1, 12), PATIENCE, *goes_on)
    expected = (_of_run(world), INTERRUPTED) if "stopped" not in answer.out else (_of_run(world),)
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


def _of_run(world: World) -> int:
    """The exit code of a run."""
    return 1 if world.model.refuses else 0


@act(1)
def run_twice(world: World, choice: random.Random) -> None:
    """A second run begins while one is at work: it is refused and says who is."""
    if not world.model.conf.present or world.model.refuses:
        return
    number, seen = choice.randint(1, 12), list[Answer]()

    def begin_another(write: int) -> None:
        if write == number and not seen:
            seen.append(Answer((), 0, "", ""))
            seen.append(world.type("run"))

    with watched_writes(begin_another):
        answer = world.type("run")
    check_words(answer)
    hold("a run beside another ends well", answer.code == 0, answer)
    for other in seen[1:]:
        check_words(other)
        hold("a second run is refused", other.code in (0, 1), other)
    world.model.run()


@act(2)
def overwrite(world: World, choice: random.Random) -> None:
    """A dropped file gets another content under its name."""
    names = [*world.model.waiting, *world.model.read, *sorted(world.model.gone)]
    if not names:
        return
    name, lines = choice.choice(names), world.source.send(choice)
    if choice.random() < 0.2:
        lines = []
    world.drop(name, world.source.render(lines))
    if name in world.model.waiting:
        world.model.waiting[name] = lines
        return
    world.model.changed[name] = lines
    _read_again(world)


def _read_again(world: World) -> None:
    """What the status says of an overwritten file is done literally."""
    model = world.model
    if not model.conf.present or model.refuses:
        return
    done = world.type("run")
    check_words(done)
    model.run()
    hold("an overwritten file fails no run", done.code == 0, done)
    while model.changed:
        said = [of for of, _ in ADVICE.findall(" ".join(done.err.split()))]
        again = next((of.split() for of in said if of.startswith("run --again")), [])
        named = [name for name in model.changed if any(w.endswith(f"/{name}") for w in again)]
        hold("a run names an overwritten file", bool(named), done)
        done = world.type(*again)
        check_words(done)
        hold("what was told to do mends it", done.code == 0, done)
        fresh = world.list_landed() - {*model.read, *model.waiting, *model.changed}
        for name in named:
            new = next(of for of in fresh if of.endswith(f"-{name.rpartition('-')[2]}"))
            model.waiting[new] = model.changed.pop(name)
            model.read.pop(name, None)
            model.gone.add(name)
        model.run()


@act(1)
def delete_file(world: World, choice: random.Random) -> None:
    """A dropped file is deleted, read or not."""
    names = [*world.model.waiting, *world.model.read]
    if names:
        name = choice.choice(names)
        world.model.gone |= {name} & {*world.model.read}
        (world.root / "landing" / "t" / name).unlink(missing_ok=True)
        world.note(f"rm landing/t/{name}")
        for files in (world.model.waiting, world.model.read, world.model.changed):
            files.pop(name, None)


@act(1)
def move_file(world: World, choice: random.Random) -> None:
    """A dropped file gets another name: its records come again."""
    here = [name for name in world.model.read if (world.root / "landing" / "t" / name).exists()]
    here = [name for name in here if name not in world.model.changed]
    if here:
        old, new = choice.choice(here), world.next_name()
        folder = world.root / "landing" / "t"
        (folder / old).rename(folder / new)
        world.note(f"mv landing/t/{old} landing/t/{new}")
        world.model.waiting[new] = world.model.read.pop(old)
        world.model.gone.add(old)


@act(3)
def rebuild(world: World, choice: random.Random | None = None) -> None:
    """The table is built anew from bronze."""
    if world.model.built is None or not world.model.conf.present:
        return
    answer = world.type("rebuild", "t")
    check_words(answer)
    hold("a rebuild ends well", answer.code == 0, answer)
    world.model.rebuild()


@act(2)
def replay(world: World, choice: random.Random) -> None:
    """Dead letters are tried again."""
    if _is_at_rest(world):
        answer = world.type("dead-letters", "replay")
        check_words(answer)
        hold("a replay ends well", answer.code == 0, answer)
        world.model.replay()


@act(1)
def acknowledge(world: World, choice: random.Random) -> None:
    """Dead letters are known, and ring no more."""
    if _is_at_rest(world) and world.model.dead:
        answer = world.type("dead-letters", "acknowledge", WHY, "--table", "t")
        check_words(answer)
        hold("an acknowledgement ends well", answer.code == 0, answer)
        for one in world.model.dead:
            one.acknowledged = True


@act(2)
def mend(world: World, choice: random.Random) -> None:
    """A dead letter is mended by hand."""
    broken = [one for one in world.model.dead if one.sent.event is None and not one.acknowledged]
    if not broken or not _is_at_rest(world) or world.source.format == "csv":
        return
    one, good = choice.choice(broken), world.source.change(choice)
    listed = world.type("dead-letters", "list", "--format", "json")
    check_words(listed)
    letters = [json.loads(line) for line in listed.out.splitlines()]
    places = [letter["position"] for letter in letters if letter["raw"] == one.sent.text]
    hold("every dead letter is listed", bool(places), listed)
    file = world.root / "mended.json"
    world.write(file.name, good.text)
    answer = world.type("dead-letters", "edit", places[0], "--file", str(file))
    check_words(answer)
    hold("a mended letter is taken", answer.code == 0, answer)
    world.model.mend(one, good)


def _is_at_rest(world: World) -> bool:
    """Whether silver has read all of bronze, with the YAML as it is."""
    model = world.model
    if model.built is None or not model.conf.present or model.refuses:
        return False
    return model.conf.renamed == model.built.renamed


@act(1)
def erase(world: World, choice: random.Random) -> None:
    """A person's key goes from every layer."""
    if not _is_at_rest(world) or world.model.changed:
        return
    key = choice.randrange(KEYS)
    answer = world.type("erase", "t", "--key", str(key), "--landing")
    check_words(answer)
    hold("an erasure ends well", answer.code == 0, answer)
    world.model.erase(key)
    for name, lines in list(world.model.read.items()):
        if any(line.key == key for line in lines):
            del world.model.read[name]


@act(1)
def maintain(world: World, choice: random.Random) -> None:
    """The nightly upkeep, at times with the landing folder."""
    if _is_at_rest(world):
        clean = choice.random() < 0.5
        answer = world.type("maintain", *(["--landing"] if clean else []))
        check_words(answer)
        hold("upkeep ends well", answer.code == 0, answer)


@act(1)
def export(world: World, choice: random.Random) -> None:
    """Someone takes gold's rows with them."""
    if _is_at_rest(world):
        kind, to = choice.choice(["delta", "parquet"]), world.root / "taken"
        answer = world.type("export", "t", str(to), "--format", kind)
        check_words(answer)
        hold("an export ends well", answer.code == 0, answer)
        rows = read_plainly(to, kind)
        shutil.rmtree(to)
        hold("an export is the oracle's", rows == world.model.current(), rows)


@act(4)
def edit_yaml(world: World, choice: random.Random) -> None:
    """Someone edits the table's YAML."""
    conf = world.model.conf
    names = ["history", "rule", "rule", "flag", "declared", "renamed", "published", "present"]
    names += [] if world.source.format == "debezium" else ["where"]
    name = choice.choice(names)
    if name == "renamed" and world.source.renamed:
        return
    world.model.conf = replace(conf, **{name: not getattr(conf, name)})
    world.write_yaml()


@act(1)
def rename_at_source(world: World, choice: random.Random) -> None:
    """The source follows the YAML and renames the column."""
    world.source.renamed = world.source.renamed or world.model.conf.renamed


@act(2)
def add_column(world: World, choice: random.Random) -> None:
    """The source has one more column from now on."""
    world.source.extra = True


@act(1)
def move_lake(world: World, choice: random.Random) -> None:
    """The project's folder gets another path: every file in it is a new one to bronze."""
    new = world.root.with_name(f"{world.root.name}x")
    world.root.rename(new)
    world.note(f"cd ..; mv {world.root.name} {new.name}; cd {new.name}")
    world.root = new
    here, model = world.list_landed(), world.model
    again = {name: lines for name, lines in {**model.read, **model.changed}.items() if name in here}
    model.waiting, model.read, model.changed = again | model.waiting, {}, {}
    model.gone.clear()


@act(1)
def travel(world: World, choice: random.Random) -> None:
    """The machine is set to another time zone."""
    world.zone = choice.choice(["America/New_York", "Asia/Kathmandu", "UTC"])
    world.note(f"export TZ={world.zone}")


@act(1)
def go_elsewhere(world: World, choice: random.Random) -> None:
    """Commands are typed in another folder, with --conf and --root."""
    world.elsewhere = not world.elsewhere


@act(1)
def move_clock(world: World, choice: random.Random) -> None:
    """Files come from a machine with another clock."""
    world.days = choice.choice([-400, -1, 0, 1, 400])
