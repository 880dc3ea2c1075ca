//! Dates and times.

use crate::python::{floor_div, floor_mod};

#[repr(C)]
pub struct Pair(i64, i64);

#[no_mangle]
pub extern "C" fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
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
    let leap_days = floor_div(before, 4) - floor_div(before, 100) + floor_div(before, 400);
    let months: i64 = (1..month).map(|earlier| days_in_month(year, earlier)).sum();
    before * 365 + leap_days + months + day
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
