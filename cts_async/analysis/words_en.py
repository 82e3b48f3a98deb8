"""The words that the rules for English questions know, by type."""

from __future__ import annotations

from typing import Final

from cts_async.analysis.gazetteer import names_in_lower_case
from cts_async.analysis.lexicon import Lexicon

NOUNS: Final = Lexicon(
    {
        "time": """
            year date month day week weekend weekday season time timeframe time_frame time_period
            time_range period era decade century quarter semester hour deadline timeline holiday
            generation_year duration recency
        """,
        "region": """
            country city state province region location place area county town district neighborhood
            neighbourhood continent zip_code zip postcode address territory jurisdiction village island
            coast destination suburb locale borough part_of_the_country part_of_the_world part_of_the_city
            part_of_the_state part_of_town
        """,
        "entity": """
            brand model company manufacturer maker product version edition person people author artist
            actor actress director singer band celebrity movie film show book song album game app
            application software platform website site school university college hospital bank team player
            club organization organisation agency airline hotel restaurant disease drug medication
            medicine law policy program programme exam test certificate certification course store airport
            one title character event species breed device phone laptop car vehicle museum park magazine
            newspaper publication tool framework language credential degree major scholarship visa treaty
            act statute campus term plan provider carrier franchise series competition league tournament
            championship election war battle festival award institution department stock fund card
            position job role system instrument console printer camera router campground
        """,
        "scope": """
            aspect type kind sort category part section topic subject field level format purpose use usage
            reason goal audience age age_group group detail information info side stage form angle
            perspective context industry sector grade skill_level step method problem issue thing fact
            data domain dimension component element demographic service material resource focus theme
            area_of interest specialty setting scenario situation occasion activity symptom experience
            experience_level background family_size intent
        """,
        "criterion": """
            criterion criteria standard metric measure definition budget price_range price cost factor
            priority threshold rating quality feature size amount ranking basis speed color colour style
            flavor flavour spending_limit income salary_range benchmark value_for_money weight height
            specification spec capacity performance power
        """,
        "other": """
            place_holder time_zone part_time full_time first_place
        """,
    },
    inflected=True,
)
"""Nouns that a question word may be bound to."""

WEAK: Final = Lexicon(
    {
        "scope": """
            range scope
        """,
        "criterion": """
            requirement preference restriction limit constraint condition
        """,
    },
    inflected=True,
)
"""Nouns that decide only where no other does: "time range" is a time, "what range" a scope."""

VALUES: Final = Lexicon(
    {
        "time": """
            current currently recent recently latest upcoming past historical today now newest
            this_year last_year next_year this_week this_month last_month next_month future daytime
            evening night morning afternoon weekend weekday summer winter spring autumn fall_season
            short-term long-term year-round real-time archived annual decade years_ago right_now
            at_the_moment up-to-date modern ancient previous older
        """,
        "region": """
            worldwide world-wide global globally internationally nationwide
            nationally domestic domestically local locally abroad overseas nearby elsewhere urban rural
            statewide near_you near_me your_area your_location your_city your_state your_country in_town
            east_coast west_coast the_north the_south the_east the_west northern southern
        """,
        "criterion": """
            cheapest affordable budget_option high-end low-cost premium expensive best-rated top-rated
            highest-rated price quality performance popularity reliability safety rating
        """,
        "other": """
            local_time price_list us_history fall new_york_times history_of local_variable global_variable
            northern_lights
        """,
    },
    inflected=True,
)
"""What a question may offer as an answer."""

PLACES: Final = Lexicon(
    {
        "region": "us u.s u.s.a usa uk u.k eu america "
        + " ".join(name.replace(" ", "_") for name in names_in_lower_case() if name.isascii())
    },
    inflected=True,
)
"""Names of places that a question may offer."""

MENTIONS: Final = Lexicon(
    {
        "region": """
            country city state province region location place county town district neighborhood
            neighbourhood continent zip_code address territory jurisdiction where nearby locally
            nationwide worldwide near_you in_your_area part_of_the_country part_of_the_world
        """,
        "other": """
            state_of place_an_order united_states
        """,
    },
    inflected=True,
)
"""Words for places, wherever they stand."""
