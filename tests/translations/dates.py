"""Dates and times: the originals of src/dates.rs."""


def is_leap_year(year: int) -> bool:
    """Whether a year of the Gregorian calendar has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Days of a month."""
    if month < 1 or month > 12:
        raise ValueError("expected a month from 1 to 12")
    if month == 2:
        return 29 if is_leap_year(year) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


def ordinal(year: int, month: int, day: int) -> int:
    """Days since the end of the year 0."""
    assert 1 <= day <= days_in_month(year, month)
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    for earlier in range(1, month):
        days += days_in_month(year, earlier)
    return days + day


def weekday(year: int, month: int, day: int) -> int:
    """The day of the week, 0 for Monday."""
    return (ordinal(year, month, day) + 6) % 7


def week_of_year(year: int, month: int, day: int) -> tuple[int, int]:
    """Year and week by ISO 8601."""
    days = ordinal(year, month, day)
    thursday = days - (days + 6) % 7 + 3
    if thursday < ordinal(year, 1, 1):
        year -= 1
    elif thursday > ordinal(year, 12, 31):
        year += 1
    return year, (thursday - ordinal(year, 1, 1)) // 7 + 1


def easter(year: int) -> tuple[int, int]:
    """Month and day of Easter Sunday."""
    golden, century = year % 19, year // 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    letter = (32 + 2 * (century % 4) + 2 * (year % 100 // 4) - epact - year % 4) % 7
    correction = (golden + 11 * epact + 22 * letter) // 451
    days = epact + letter - 7 * correction + 114
    return days // 31, days % 31 + 1
