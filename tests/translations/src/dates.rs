//! Dates and times.

use crate::python::{floor_div, floor_mod};

#[repr(C)]
pub struct Pair(i64, i64);

#[repr(C)]
pub struct Triple(i64, i64, i64);

#[repr(C)]
pub struct DateTime(i64, i64, i64, i64, i64, i64);

#[no_mangle]
pub extern "C" fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn leap_years(last: i64) -> i64 {
    floor_div(last, 4) - floor_div(last, 100) + floor_div(last, 400)
}

#[no_mangle]
pub extern "C" fn leap_days(first: i64, end: i64) -> i64 {
    leap_years(end - 1) - leap_years(first - 1)
}

#[no_mangle]
pub extern "C" fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => panic!("expected a month from 1 to 12"),
    }
}

#[no_mangle]
pub extern "C" fn ordinal(year: i64, month: i64, day: i64) -> i64 {
    assert!((1..=days_in_month(year, month)).contains(&day));
    let before = year - 1;
    let months: i64 = (1..month).map(|earlier| days_in_month(year, earlier)).sum();
    before * 365 + leap_years(before) + months + day
}

#[no_mangle]
pub extern "C" fn day_of_year(year: i64, month: i64, day: i64) -> i64 {
    ordinal(year, month, day) - ordinal(year, 1, 1) + 1
}

/// The date of a number of days since the end of the year 0. Years begin in March, so that a leap day is the last day of one.
fn civil(days: i64) -> Triple {
    let days = days + 305;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    Triple(400 * cycle + year + i64::from(is_next_year), month, day)
}

#[no_mangle]
pub extern "C" fn date_of_ordinal(days: i64) -> Triple {
    assert!((1..=3_652_059).contains(&days), "expected a day of the years 1 to 9999");
    civil(days)
}

#[no_mangle]
pub extern "C" fn weekday(year: i64, month: i64, day: i64) -> i64 {
    floor_mod(ordinal(year, month, day) + 6, 7)
}

#[no_mangle]
pub extern "C" fn week_of_year(mut year: i64, month: i64, day: i64) -> Pair {
    let days = ordinal(year, month, day);
    let thursday = days - floor_mod(days + 6, 7) + 3;
    if thursday < ordinal(year, 1, 1) {
        year -= 1;
    } else if thursday > ordinal(year, 12, 31) {
        year += 1;
    }
    Pair(year, floor_div(thursday - ordinal(year, 1, 1), 7) + 1)
}

fn first_monday(year: i64) -> i64 {
    ordinal(year, 1, 4) - weekday(year, 1, 4)
}

#[no_mangle]
pub extern "C" fn date_of_week(year: i64, week: i64, day: i64) -> Triple {
    assert!((1..=9999).contains(&year) && (1..=7).contains(&day));
    let days = first_monday(year) + 7 * (week - 1);
    assert!(week >= 1 && days < first_monday(year + 1), "expected a week of the year");
    date_of_ordinal(days + day - 1)
}

#[no_mangle]
pub extern "C" fn unix_time(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> i64 {
    let days = ordinal(year, month, 1) - 719_163 + day - 1;
    days * 86_400 + hour * 3600 + minute * 60 + second
}

#[no_mangle]
pub extern "C" fn utc_time(seconds: i64) -> DateTime {
    let Triple(year, month, day) = civil(seconds.div_euclid(86_400) + 719_163);
    let seconds = seconds.rem_euclid(86_400);
    DateTime(year, month, day, seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[no_mangle]
pub extern "C" fn normalized_duration(days: i64, seconds: i64, microseconds: i64) -> Triple {
    let seconds = seconds + microseconds.div_euclid(1_000_000);
    let days = days + seconds.div_euclid(86_400);
    assert!(days.abs() <= 999_999_999, "too many days");
    Triple(days, seconds.rem_euclid(86_400), microseconds.rem_euclid(1_000_000))
}

#[no_mangle]
pub extern "C" fn total_seconds(days: i64, seconds: i64, microseconds: i64) -> f64 {
    ((days * 86_400 + seconds) * 1_000_000 + microseconds) as f64 / 1e6
}

#[no_mangle]
pub extern "C" fn easter(year: i64) -> Pair {
    let (golden, century) = (floor_mod(year, 19), floor_div(year, 100));
    let moon = floor_div(century - floor_div(century + 8, 25) + 1, 3);
    let epact = floor_mod(19 * golden + century - floor_div(century, 4) - moon + 15, 30);
    let leap = 2 * floor_mod(century, 4) + 2 * (floor_mod(year, 100) / 4);
    let letter = floor_mod(32 + leap - epact - floor_mod(year, 4), 7);
    let correction = (golden + 11 * epact + 22 * letter) / 451;
    let days = epact + letter - 7 * correction + 114;
    Pair(days / 31, days % 31 + 1)
}
