"""Dates and times: the originals of src/dates.rs."""


def is_leap_year(year: int) -> bool:
    """Whether a year of the Gregorian calendar has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def leap_years(last):
    """Leap years from the year 1 to the last one."""
    return last // 4 - last // 100 + last // 400


def leap_days(first: int, end: int) -> int:
    """Leap years from a year up to another one, which is not counted."""
    return leap_years(end - 1) - leap_years(first - 1)


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
    days = before * 365 + leap_years(before)
    for earlier in range(1, month):
        days += days_in_month(year, earlier)
    return days + day


def day_of_year(year: int, month: int, day: int) -> int:
    """The number of a day in its year, from 1."""
    return ordinal(year, month, day) - ordinal(year, 1, 1) + 1


def civil(days):
    """Year, month and day of a number of days since the end of the year 0."""
    days -= 1
    cycles, days = days // 146097, days % 146097
    centuries = min(days // 36524, 3)
    days -= centuries * 36524
    leap_cycles, days = days // 1461, days % 1461
    years = min(days // 365, 3)
    days -= years * 365
    year = 400 * cycles + 100 * centuries + 4 * leap_cycles + years + 1
    month = 1
    while days >= days_in_month(year, month):
        days -= days_in_month(year, month)
        month += 1
    return year, month, days + 1


def date_of_ordinal(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since the end of the year 0, from the year 1 to 9999."""
    if not 1 <= days <= 3652059:
        raise ValueError("expected a day of the years 1 to 9999")
    return civil(days)


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


def first_monday(year):
    """The ordinal of the Monday of the first week by ISO 8601."""
    return ordinal(year, 1, 4) - weekday(year, 1, 4)


def date_of_week(year: int, week: int, day: int) -> tuple[int, int, int]:
    """The date of a day, 1 for Monday, of a week by ISO 8601."""
    if not 1 <= year <= 9999 or not 1 <= day <= 7:
        raise ValueError("expected a year from 1 to 9999 and a day from 1 to 7")
    days = first_monday(year) + 7 * (week - 1)
    if week < 1 or days >= first_monday(year + 1):
        raise ValueError("expected a week of the year")
    return date_of_ordinal(days + day - 1)


def unix_time(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Seconds since 1970; days and times may be outside of their ranges."""
    days = ordinal(year, month, 1) - 719163 + day - 1
    return ((days * 24 + hour) * 60 + minute) * 60 + second


def utc_time(seconds: int) -> tuple[int, int, int, int, int, int]:
    """Date and time of a number of seconds since 1970."""
    year, month, day = civil(seconds // 86400 + 719163)
    minutes = seconds % 86400 // 60
    return year, month, day, minutes // 60, minutes % 60, seconds % 60


def normalized_duration(days: int, seconds: int, microseconds: int) -> tuple[int, int, int]:
    """A duration with seconds and microseconds that are neither negative nor of a higher unit."""
    seconds += microseconds // 1_000_000
    days += seconds // 86400
    if abs(days) > 999_999_999:
        raise OverflowError("too many days")
    return days, seconds % 86400, microseconds % 1_000_000


def total_seconds(days: int, seconds: int, microseconds: int) -> float:
    """The seconds of a duration."""
    return ((days * 86400 + seconds) * 1_000_000 + microseconds) / 1_000_000


def easter(year: int) -> tuple[int, int]:
    """Month and day of Easter Sunday."""
    golden, century = year % 19, year // 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    letter = (32 + 2 * (century % 4) + 2 * (year % 100 // 4) - epact - year % 4) % 7
    correction = (golden + 11 * epact + 22 * letter) // 451
    days = epact + letter - 7 * correction + 114
    return days // 31, days % 31 + 1
