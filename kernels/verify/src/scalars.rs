//! The mix that most cases draw scalars from.

use accelerd_ir::scalar::Literal;

use crate::{
    earlier::Earlier,
    random::Random,
    specials::Specials,
    values::{Values, as_f64, finite_range, from_ordinal, ordinal},
};

/// A strategy that draws a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Uniform in the set, or in its part up to a power of ten.
    Uniform,
    /// Uniform exponent and mantissa near 1; uniform number of bits.
    LogUniform,
    /// Uniform among the representable values: random bits.
    Bits,
    /// An integer up to 1,000.
    SmallInteger,
    /// A special value.
    Special,
    /// Up to 4 representable values from a special one.
    NearSpecial,
    /// Up to 2 representable values from a power of two.
    NearPower,
    /// Up to 4 representable values from an end of the set.
    NearBound,
    /// A number with the fraction 0.5; for integers an odd number.
    Half,
    /// A number with up to 4 decimals; for integers a number with few digits and trailing zeros.
    Decimal,
    /// The value of an earlier input, one near it, or one that depends on it.
    Repeat,
}

impl Strategy {
    /// All, by their number.
    pub(crate) const ALL: [Self; 11] = [
        Self::Uniform,
        Self::LogUniform,
        Self::Bits,
        Self::SmallInteger,
        Self::Special,
        Self::NearSpecial,
        Self::NearPower,
        Self::NearBound,
        Self::Half,
        Self::Decimal,
        Self::Repeat,
    ];

    /// Draws a strategy. It repeats an earlier input only if there is one.
    pub(crate) fn draw(random: &mut Random, earlier: &Earlier) -> Self {
        if earlier.is_related() && random.bits() & 1 == 0 {
            return Self::Repeat;
        }
        let drawn = random.pick(&MIX);
        if drawn == Self::Repeat && earlier.is_empty() { Self::Uniform } else { drawn }
    }
}

/// Strategies by their share.
pub(crate) const MIX: [Strategy; 32] = {
    use Strategy::{
        Bits, Decimal, Half, LogUniform, NearBound, NearPower, NearSpecial, Repeat, SmallInteger, Special, Uniform,
    };
    [
        Uniform,
        Uniform,
        Uniform,
        Uniform,
        Uniform,
        LogUniform,
        LogUniform,
        LogUniform,
        LogUniform,
        Bits,
        Bits,
        SmallInteger,
        SmallInteger,
        SmallInteger,
        SmallInteger,
        SmallInteger,
        Special,
        Special,
        Special,
        NearSpecial,
        NearSpecial,
        NearPower,
        NearPower,
        NearBound,
        Half,
        Half,
        Decimal,
        Decimal,
        Repeat,
        Repeat,
        Repeat,
        Repeat,
    ]
};

/// Absolute values that uniform numbers are limited to; 0 stands for no limit.
pub(crate) const SCALES: [f64; 8] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e6, 0.0, 0.0];

/// Draws values of a set.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    values: Values,
    specials: Specials,
    bounds: (f64, f64),
    turn: Turn,
}

/// The width of a set, around which functions of angles, times and positions are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Half of the width of floating-point numbers; 180 if they have no bounds.
    pub(crate) half: f64,
    /// Half of the width of integers.
    pub(crate) half_steps: i128,
    /// The sum of both ends of floating-point numbers.
    pub(crate) ends: f64,
    /// The sum of both ends of integers.
    pub(crate) end_steps: i128,
}

impl Turn {
    fn new(values: &Values) -> Self {
        /// Half a turn in degrees: what inputs without bounds are most often.
        const DEGREES: f64 = 180.0;
        let (lowest, highest) = values.finite_bounds();
        let half = highest / 2.0 - lowest / 2.0;
        let (_, greatest) = finite_range(values.dtype());
        let is_bounded = half < as_f64(values.dtype(), from_ordinal(values.dtype(), greatest)) / 2.0;
        let low = values.low();
        let high = values.high();
        Self {
            half: if is_bounded { half } else { DEGREES },
            half_steps: (high - low) / 2 + (high - low) % 2,
            ends: if is_bounded { lowest + highest } else { 0.0 },
            end_steps: low + high,
        }
    }
}

impl Mix {
    pub(crate) fn new(values: Values, specials: Specials) -> Self {
        let bounds = values.finite_bounds();
        let turn = Turn::new(&values);
        Self { values, specials, bounds, turn }
    }

    pub(crate) fn turn(&self) -> Turn {
        self.turn
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    pub(crate) fn specials(&self) -> &Specials {
        &self.specials
    }

    /// A scalar of one of `count` inputs: a value of the mix, or one that goes with that of its partner.
    pub(crate) fn scalar(&self, earlier: &Earlier, count: usize, random: &mut Random) -> u64 {
        let paired = earlier.partner(count).and_then(|partner| self.paired(partner, random));
        paired.unwrap_or_else(|| self.any(earlier, random))
    }

    /// The value of a partner, its negative, the one half a turn away, or its mirror image in the set.
    fn paired(&self, partner: Literal, random: &mut Random) -> Option<u64> {
        let drawn = random.below(4);
        let value = self.values.converted(partner)?;
        match drawn {
            0 => Some(value),
            1 => self.negative(value),
            2 => self.turned(value, 1),
            _ => self.mirrored(value),
        }
    }

    /// A value of the mix.
    pub(crate) fn any(&self, earlier: &Earlier, random: &mut Random) -> u64 {
        self.draw(Strategy::draw(random, earlier), earlier, random)
    }

    /// A value by a strategy, always in the set.
    pub(crate) fn draw(&self, strategy: Strategy, earlier: &Earlier, random: &mut Random) -> u64 {
        let drawn = match strategy {
            Strategy::Uniform => None,
            Strategy::LogUniform => self.log_uniform(random),
            Strategy::Bits => return self.bits(random),
            Strategy::SmallInteger => self.small_integer(random),
            Strategy::Special => return self.special(random),
            Strategy::NearSpecial => self.values.neighbour(self.special(random), random.within(4)),
            Strategy::NearPower => self.near_power(random),
            Strategy::NearBound => self.near_bound(random),
            Strategy::Half => self.half(random),
            Strategy::Decimal => self.decimal(random),
            Strategy::Repeat => earlier.pick_two(random).and_then(|values| self.repeat(values, random)),
        };
        drawn.unwrap_or_else(|| self.uniform(random))
    }

    fn is_float(&self) -> bool {
        self.values.dtype().is_float()
    }

    /// One of the values, all with the same probability.
    fn bits(&self, random: &mut Random) -> u64 {
        let offset = (u128::from(random.bits()) * self.values.count()) >> 64;
        self.values.clamped(self.values.low() + offset.cast_signed())
    }

    fn special(&self, random: &mut Random) -> u64 {
        let pool = if random.bits() & 1 == 0 { self.specials.core() } else { self.specials.all() };
        random.pick(pool)
    }

    /// Uniform up to a scale; where the set has no numbers up to it, uniform in the set.
    fn uniform(&self, random: &mut Random) -> u64 {
        let scale = random.pick(&SCALES);
        if self.is_float() { self.uniform_float(scale, random) } else { self.uniform_integer(scale, random) }
    }

    fn uniform_float(&self, scale: f64, random: &mut Random) -> u64 {
        let (mut low, mut high) = self.bounds;
        if scale > 0.0 && low <= scale && high >= -scale {
            (low, high) = (low.max(-scale), high.min(scale));
        }
        let share = random.unit();
        let number = Literal::from_f64(self.values.dtype(), low * (1.0 - share) + high * share);
        self.values.clamped(ordinal(number.dtype(), number.bits()).unwrap_or(0))
    }

    fn uniform_integer(&self, scale: f64, random: &mut Random) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "a scale is an integer")]
        let scale = scale as i128;
        let low = self.values.low().max(-scale);
        let high = self.values.high().min(scale);
        if scale == 0 || low > high {
            return self.bits(random);
        }
        let offset = (u128::from(random.bits()) * ((high - low).unsigned_abs() + 1)) >> 64;
        self.values.clamped(low + offset.cast_signed())
    }

    fn small_integer(&self, random: &mut Random) -> Option<u64> {
        let limit = random.pick(&[3, 10, 100, 1000]);
        self.values.integer(random.within(limit))
    }

    fn log_uniform(&self, random: &mut Random) -> Option<u64> {
        if self.is_float() {
            let number = (1.0 + random.unit()) * power_of_two(random.within(32));
            return self.values.number(random.signed(number));
        }
        let bits = random.below(65);
        let magnitude = i128::from(random.bits().checked_shr(64 - u32::try_from(bits).unwrap_or(64)).unwrap_or(0));
        self.values.integer(if random.bits() & 1 == 0 { magnitude } else { -magnitude })
    }

    fn near_power(&self, random: &mut Random) -> Option<u64> {
        let distance = random.within(2);
        if self.is_float() {
            let limit = if random.bits() & 1 == 0 { 64 } else { 1022 };
            let power = power_of_two(random.within(limit));
            return self.values.neighbour(self.values.number(random.signed(power))?, distance);
        }
        let power = 1i128 << random.below(65);
        self.values.integer(if random.bits() & 1 == 0 { power + distance } else { distance - power })
    }

    fn near_bound(&self, random: &mut Random) -> Option<u64> {
        let distance = i128::from(random.below(5));
        let is_low = random.bits() & 1 == 0;
        self.values.at(if is_low { self.values.low() + distance } else { self.values.high() - distance })
    }

    fn half(&self, random: &mut Random) -> Option<u64> {
        let whole = random.bits() >> 43 >> random.below(21);
        if self.is_float() {
            let number = whole as f64 + 0.5;
            return self.values.number(random.signed(number));
        }
        self.values.integer(2 * i128::from(whole) + 1)
    }

    fn decimal(&self, random: &mut Random) -> Option<u64> {
        const POWERS: [u32; 4] = [10, 100, 1_000, 10_000];
        let limit = random.pick(&POWERS);
        let digits = random.within(limit);
        let power = random.pick(&POWERS);
        if self.is_float() {
            return self.values.number(digits as f64 / f64::from(power));
        }
        self.values.integer(digits * i128::from(power))
    }

    /// The first of two earlier values, its neighbours by 1 and by 1 ULP, its negative, the sum of both, its difference from a constant, the
    /// value half or a quarter of a turn away, or its mirror image.
    fn repeat(&self, earlier: [Literal; 2], random: &mut Random) -> Option<u64> {
        let [value, other] = earlier.map(|earlier| self.values.converted(earlier));
        let value = value?;
        match random.below(15) {
            0 => self.plus(value, 1),
            1 => self.plus(value, -1),
            2 => self.values.neighbour(value, 1),
            3 => self.values.neighbour(value, -1),
            4 => self.negative(value),
            5 => self.sum(value, other?),
            6 => self.sum(self.negative(value)?, random.pick(self.specials.constants())),
            7 => self.turned(value, 1),
            8 => self.turned(value, 2),
            9 => self.mirrored(value),
            _ => Some(value),
        }
    }

    /// The value at half the width of the set above or below another one, or at a part of that.
    fn turned(&self, value: u64, parts: u8) -> Option<u64> {
        let dtype = self.values.dtype();
        if self.is_float() {
            let number = as_f64(dtype, value);
            let distance = self.turn.half / f64::from(parts);
            return self.values.number(number + distance).or_else(|| self.values.number(number - distance));
        }
        let place = ordinal(dtype, value)?;
        let distance = self.turn.half_steps / i128::from(parts);
        self.values.at(place + distance).or_else(|| self.values.at(place - distance))
    }

    /// The value that is as far from the one end of the set as another one is from the other end.
    fn mirrored(&self, value: u64) -> Option<u64> {
        let dtype = self.values.dtype();
        if self.is_float() {
            return self.values.number(self.turn.ends - as_f64(dtype, value));
        }
        self.values.at(self.turn.end_steps - ordinal(dtype, value)?)
    }

    fn plus(&self, value: u64, distance: i32) -> Option<u64> {
        if self.is_float() {
            self.values.number(as_f64(self.values.dtype(), value) + f64::from(distance))
        } else {
            self.values.neighbour(value, distance.into())
        }
    }

    fn sum(&self, one: u64, other: u64) -> Option<u64> {
        let dtype = self.values.dtype();
        if self.is_float() {
            self.values.number(as_f64(dtype, one) + as_f64(dtype, other))
        } else {
            self.values.at(ordinal(dtype, one)? + ordinal(dtype, other)?)
        }
    }

    pub(crate) fn negative(&self, value: u64) -> Option<u64> {
        if self.is_float() {
            self.values.number(-as_f64(self.values.dtype(), value))
        } else {
            self.values.at(-ordinal(self.values.dtype(), value)?)
        }
    }
}

/// 2 to the power of `exponent`, from -1022 to 1023.
fn power_of_two(exponent: i128) -> f64 {
    f64::from_bits(u64::try_from(exponent + 1023).unwrap_or(0) << 52)
}
