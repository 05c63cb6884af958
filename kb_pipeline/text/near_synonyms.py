"""Words that people write for one another: two texts that differ in such words may say the same.

Belongs here: groups of near-synonyms in base forms, and the test of two words. They only keep a pair in the review queue:
a merge never rests on them (those that may stand in ``synonyms``), and nothing is told apart because of a word missing
here alone (``frames`` says what else it takes).
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from kb_pipeline.text.antonyms import opposition, stem
from kb_pipeline.text.known_names import known_name
from kb_pipeline.text.spelling import one_spelling
from kb_pipeline.text.synonyms import JOIN, WORDS

_GROUPS = """
add insert append include attach put ; remove delete drop erase discard clear unset clean purge ; create make
generate produce build write add new initialize init ; build compile assemble ; start launch run begin open boot
execute invoke trigger spawn fork ; stop halt end finish terminate exit quit kill abort cancel ; display show print
list output view see dump render report log give get ; get fetch retrieve obtain read receive pull download load ;
send transmit submit post push deliver forward emit publish upload ; save store keep write record persist retain put
; change modify edit update alter adjust set configure ; set specify define assign provide pass configure use ; use
employ apply utilize run call take consume implement adopt work follow ; usage use ; implement write build create
add do ; call invoke run execute trigger ; check verify validate test ensure confirm inspect examine assert prove ;
validation verification check test ; cleaning cleanup ; documentation docs document manual ; consider think plan ;
approach strategy technique ; ability capability feature ; search find look locate query seek grep ; copy duplicate
clone replicate ; move transfer rename relocate migrate shift ; replace substitute swap exchange ; join combine
merge concatenate unite ; split divide separate cut break partition ; group cluster bundle ; enable allow permit
activate let turn_on ; disable forbid disallow deactivate prohibit deny block prevent ban turn_off ; require need
demand must ; want need ; avoid skip omit prevent ; ignore skip ; limit restrict constrain cap bound ; fail break
crash error die ; leave exit quit end go depart ; reach arrive hit get ; lose drop miss ; fix repair correct mend
resolve solve ; handle process treat manage deal ; try attempt ; retry repeat rerun again ; wait pause sleep ;
restart reboot reload relaunch ; refresh update reload ; increase raise grow extend ; decrease reduce lower shrink ;
connect attach link join bind ; disconnect detach ; install deploy setup add ; convert transform translate change
turn ; format pretty-print prettify ; parse read interpret ; describe explain document detail specify ; treat handle
regard ; bring take carry ; ask request query display ; explain tell say state ; indicate show mean signal ; note
remember mind ; choose select pick prefer ; sort order arrange ; compare diff ; compute calculate determine count ;
measure gauge ; follow obey respect honor ; contain hold include have ; own have ; live reside sit stand lie ;
happen occur ; differ vary ; help assist support aid ; watch monitor observe track ; share publish ; expose publish
; lock freeze ; hide mask ; encrypt cipher ; extract unpack decompress unzip ; compress pack zip archive ; mount
attach ; listen wait ; given specified specific certain particular concrete ; current present existing actual active
running ; available installed ; different other another distinct ; same identical equal ; new fresh recent latest ;
old former previous legacy stale ; every each all ; whole entire full complete all ; some several few ; many
multiple several various numerous ; single one ; big large huge great ; small little tiny short ; quick fast rapid ;
slow sluggish ; easy simple ; hard difficult ; important essential critical crucial vital key ; needed necessary
required mandatory ; optional voluntary ; default standard usual normal ; common shared frequent general ; wrong
incorrect bad invalid ; right correct proper valid ; safe secure ; dangerous unsafe risky ; clear plain obvious
explicit ; hidden secret ; empty blank ; raw plain ; automatic automated ; manual hand ; local own ; remote distant
; public open ; internal private ; first initial ; last final ; main primary chief major ; additional extra further
more ; only just solely exclusively ; always ever constantly ; often frequently ; rarely seldom ; immediately
instantly directly ; afterwards later then ; before until ; while during ; because since as ; so thus therefore
hence ; but however though although ; also too ; file document ; folder directory dir ; path location place ; name
title identifier id label ; option flag argument parameter ; switch setting ; setting configuration option
preference ; value content data ; content text body data ; entry record item ; row element member ; item element
thing object ; list array sequence collection ; map dictionary table ; text string ; function method routine
procedure ; parameter argument input option ; input argument ; field attribute property member ; program application
app tool software utility ; package module library ; project repo repository codebase ; service server daemon ;
server machine host node computer ; process job task ; task issue ticket job ; user person account people developer
; team group ; customer client ; owner author ; error failure fault problem exception ; bug defect issue ; warning
alert notice ; message notification note ; log journal record history ; report summary ; image picture photo ; video
film movie clip ; audio sound ; web internet online ; page site website ; link url address ; request call query ;
response reply answer result ; result output outcome ; input data ; key token secret ; password secret ; version
release ; build release ; branch line ; change edit modification commit ; test check ; rule guideline policy ; help
manual documentation guide information ; information detail data ; description summary explanation ; example sample
; type kind sort class ; size length ; number count amount quantity ; speed rate ; time duration period ; date day ;
part piece section ; area zone region ; start beginning ; end finish ; limit maximum ceiling bound ; goal aim
purpose target ; reason cause ; way manner method approach ; master main trunk ; chance risk probability ; rise jump
climb gain grow ; fall drop decline slip ; say tell state add report announce declare ; estimate expect predict
forecast ; injure hurt wound ; idea concept ; step stage phase ; line row ; screen display monitor ; window pane ;
shell terminal console ; disk drive ; storage store ; database db ; schema structure ; queue backlog ; cache buffer
; network net ; pattern expression ; character letter sign symbol ; word term ; quote citation ; space blank ; tab
tabulator ; production live ; deploy release ; incident outage failure ; downtime outage ; man men person guy male
gentleman human somebody someone boy ; woman women person lady girl female somebody someone human ; child children
kid boy girl toddler youngster baby ; people person human crowd group folk men women children kid ; boy guy ; player
athlete sportsman ; lawyer attorney ; doctor physician ; teacher instructor ; maker manufacturer producer ; chief
head leader boss ; spokesman spokeswoman spokesperson ; agency bureau office authority ; company firm business
corporation ; cut slice chop dice break crack ; fight battle struggle wrestle box ; cook fry boil bake grill ; bite
snap ; pet stroke ; piece slice bit part ; desk table ; land shore ground ; water sea lake pond pool ; hit strike
kick beat knock ; jump leap hop bounce ; walk stroll hike march go ; run sprint jog race ; talk speak chat say ; eat
consume ; look watch stare gaze see ; rest sit lie relax ; ride drive ; car vehicle automobile ; bike bicycle cycle
; motorcycle motorbike ; stone rock ; path trail road street ; forest wood woods ; sea ocean ; river stream ; lawn
grass ; shore beach coast ; rope cord string ; coat jacket ; pan skillet ; spread wipe smear ; mix stir blend
amalgamate ; yell shout scream ; smile grin ; throw toss ; catch grab hold ; climb scale ascend ; fall drop
"""


def _table() -> dict[str, set[int]]:
    groups: dict[str, set[int]] = {}
    for number, line in enumerate(_GROUPS.replace("\n", " ").split(";")):
        for word in line.split():
            known = WORDS.get(word, word)
            for form in {word, known, *(stem(form).removesuffix("e") for form in (word, known))}:
                groups.setdefault(form, set()).add(number)
    return groups


_MEMBERS = _table()
_MIN_SHARED_START = 4
_MIN_LETTERS_ALIKE = 0.8


def may_mean_the_same(left: str, right: str) -> bool:
    """Whether two words (canonical tokens) are forms of one word, spelt alike, or written for one another."""
    if left.startswith("-") or right.startswith("-"):
        return left == right  # flags: -v is not -V
    own, other = _plain(left), _plain(right)
    if opposition(own, other):
        return False
    if own == other or (known_name(own) or own) == (known_name(other) or other):
        return True
    letters_l, letters_r = (re.sub(r"\W|_", "", word) for word in (own, other))
    if letters_l == letters_r:
        return True  # "foo()" and "foo", "userId" and "userid": a person sees whether the form matters
    stem_l, stem_r = (stem(word).removesuffix("e") for word in (own, other))
    if stem_l == stem_r or _MEMBERS.get(own, _MEMBERS.get(stem_l, set())) & _MEMBERS.get(
        other, _MEMBERS.get(stem_r, set())
    ):
        return True
    shorter, longer = sorted((own, other), key=len)
    if len(shorter) >= _MIN_SHARED_START and (longer.startswith(shorter) or longer.endswith(shorter)):
        return True  # "system" and "systematic", "page" and "webpage"
    if not own.isalpha() or not other.isalpha():
        return False  # names: a.conf is no slip for b.conf
    if len(shorter) > _MIN_SHARED_START and own[: len(shorter) - 1] == other[: len(shorter) - 1]:
        return True
    return len(shorter) >= _MIN_SHARED_START and _alike(own, other)


def _alike(own: str, other: str) -> bool:
    """Whether one may be a slip of the other: the same first letter and nearly the same letters."""
    return own[0] == other[0] and SequenceMatcher(None, own, other).ratio() >= _MIN_LETTERS_ALIKE


def _plain(word: str) -> str:
    return one_spelling(word.replace(JOIN, "").lower().removesuffix("'s"))
