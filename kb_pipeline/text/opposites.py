"""The closed lists of opposites, technical ones first.

Belongs here: the words, as data. A line holds oppositions, parted by semicolons, with their two sides in base forms;
a phrase is written with underscores. Does not belong here: inflection and look-up (``antonyms``), and co-hyponyms
(red and blue, yaml and json): they only keep two texts apart, and no list covers them.
"""

from __future__ import annotations

POLAR = """
enable activate | disable deactivate ; allow permit accept | forbid disallow prohibit deny reject refuse ban block
include | exclude omit ; show display reveal expose | hide conceal ; grant | revoke deny
accept approve | decline reject ; succeed pass | fail ; success | failure ; valid | invalid ; true | false
yes | no ; on | off ; on | under ; in | out ; into | out_of ; onto | off off_of ; up | down ; always | never
before | after ; above over | below under beneath ; inside within | outside ; sync synchronous | async asynchronous
synchronously | asynchronously ; blocking | nonblocking non_blocking ; mutable | immutable
optional | required mandatory compulsory ; manual | automatic ; manually | automatically ; explicit | implicit
explicitly | implicitly ; eager | lazy ; eagerly | lazily ; strict | loose lenient relaxed ; strong | weak
strongly | weakly ; safe secure | unsafe insecure dangerous ; trusted | untrusted ; known | unknown
minimum least | maximum most ; minimize | maximize ; more greater larger higher | less fewer smaller lower
increase raise grow | decrease reduce lower shrink ; increasing | decreasing ; earlier earliest | later latest
early | late ; newer newest | older oldest ; new | old ; ascending | descending ; forward | backward
positive | negative ; even | odd ; full | empty ; blank | nonempty non_empty ; visible shown | hidden invisible
online | offline ; active | inactive ; single | multiple ; singular | plural ; same identical | different
equal | unequal ; similar | dissimilar ; high | low ; large big huge | small little tiny ; long | short
wide | narrow ; deep | shallow ; fast quick | slow ; quickly rapidly | slowly ; heavy | light ; hot | cold
warm | cool ; dark | light bright ; dry | wet ; hard difficult | easy soft simple ; simple | complex complicated
thick | thin ; rich | poor ; good | bad ; better | worse ; best | worst ; correct right | incorrect wrong
correctly | incorrectly ; useful | useless ; possible | impossible ; legal | illegal ; stable | unstable
supported | unsupported ; available | unavailable ; present | absent missing ; contain | lack
permanent | temporary ; permanently | temporarily ; persistent | transient ephemeral
common frequent | rare uncommon infrequent ; frequently often usually | rarely seldom
everything all every each | nothing none ; everyone everybody | nobody ; many | few ; much | little ; with | without
for | against ; prefer use | avoid ; recommend encourage advise | discourage ; require need | forbid
remember | forget ; win | lose ; buy | sell ; enter | exit leave ; rise | fall ; ascend climb | descend
asleep | awake ; love like | hate dislike ; praise | criticize ; agree | disagree ; alive living | dead
near close close_to | far far_from ; together | apart separately ; alone | together ; clean | dirty
loud noisy | quiet silent ; calm | angry ; happy | sad unhappy ; rough | smooth ; straight | curly
sharp | blunt dull ; tight | loose ; crowded | empty deserted ; indoors | outdoors ; indoor | outdoor
upstairs | downstairs ; ahead | behind ; in_front_of | behind ; major | minor ; default | custom
original | modified ; draft | final ; ignore | respect honor ; deprecated | recommended ; prevent | cause enable
trust | distrust ; sequential serial | parallel ; sequentially | concurrently simultaneously ; concrete | abstract
inclusive | exclusive ; lossless | lossy ; verbose | quiet silent terse ; unique | duplicate ; sorted | unsorted
ordered | unordered ; signed | unsigned ; tracked | untracked ; checked | unchecked ; managed | unmanaged
still | no_longer ; protect | expose ; static | dynamic ; local | global ; eventual | immediate
optimistic | pessimistic ; shared | exclusive private ; able | unable ; nullable | nonnullable non_nullable ; hit catch | miss
attack | defend ; put_on | take_off
"""
"""Opposite wherever they stand (enable and disable, valid and invalid)."""

OPERATIONS = """
add insert append put | remove delete drop ; start launch begin | stop halt end finish terminate ; open | close shut
lock | unlock ; encrypt | decrypt ; encode | decode ; compress zip | decompress uncompress extract unzip
install | uninstall ; mount | unmount ; load | unload ; import | export ; push | pull pop ; upload | download
send | receive ; read | write ; increment | decrement ; expand | collapse ; connect | disconnect ; attach | detach
register | unregister deregister ; subscribe | unsubscribe ; mute | unmute ; pin | unpin ; wrap | unwrap
pack | unpack ; bind | unbind ; link | unlink ; archive | unarchive ; freeze | unfreeze thaw
pause suspend | resume continue ; create | destroy delete ; merge join combine | split separate
serialize | deserialize ; marshal | unmarshal ; escape | unescape ; minify | prettify
commit | rollback revert roll_back ; upgrade | downgrade ; promote | demote ; prepend | append ; fill | drain empty
lift raise | lower ; throw | catch ; give | take ; sleep | wake ; log_in sign_in | log_out sign_out
start_up | shut_down ; set_up | tear_down ; opt_in | opt_out ; check_in | check_out
turn_on switch_on | turn_off switch_off
"""
"""Opposite as what is to be done; elsewhere they name two operations."""

COUNTERPARTS = """
public | private ; internal | external ; input | output ; remote | local ; first | last ; next | previous
left | right ; top | bottom ; upper | lower ; uppercase upper_case | lowercase lower_case ; head | tail
front | back ; front_end | back_end ; horizontal | vertical ; horizontally | vertically ; row | column
parent | child ; ancestor | descendant ; source | destination target ; client | server ; sender | receiver
producer | consumer ; caller | callee ; request | response ; get | set ; prefix | suffix ; inline | external
primary main | secondary ; soft | hard ; male | female ; day | night ; morning | evening ; summer | winter
north northern | south southern ; east eastern | west western
"""
"""Two parts of one thing (client and server): opposite only where one of them is chosen."""
