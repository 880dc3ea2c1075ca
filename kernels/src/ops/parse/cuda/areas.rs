//! Where columns land: slices of one request one behind the other, so that its columns need no copy to be whole.

use std::{cell::RefCell, ops::Range, sync::Arc};

use bytemuck::Pod;
use rayon::prelude::*;

use crate::{
    OpError,
    cuda::{Buffer, Landed, Landing, Layout, On, Order, Place, Worker},
    ops::parse::{
        Columns, Counts,
        columns::Table,
        cpu::{Done, token_kind},
    },
};

/// Rows that an area has room for beyond what is expected, in sixteenths.
const SPARE: u64 = 8;
/// Rows that it has room for at least, for 64 bytes of source: hardly any code has more.
const USUAL: Counts = Counts { nodes: 8, names: 4, values: 2, extra: 4, lines: 3, tokens: 11, comments: 1 };
/// Token kinds that one thread renumbers.
const RENUMBERED_AT_ONCE: usize = 1 << 20;

/// Where something of each column lies.
pub(super) type Places = Columns<Place<u8>, Place<u32>>;

/// The areas of a batch.
#[derive(Default)]
pub(super) struct Areas<'a> {
    all: Vec<Area<'a>>,
    /// Bytes of source that are expected in the area still, those of the next slice included.
    expected: usize,
}

/// Rows of each column that follow each other.
pub(super) enum Stretch<'a> {
    /// On the device, between these.
    Device(Counts, Counts),
    /// What the CPU made of a source.
    Anew(&'a Done),
}

impl Stretch<'_> {
    fn rows(&self) -> Counts {
        match self {
            Self::Device(from, to) => to.minus(*from),
            Self::Anew(done) => done.result.counts,
        }
    }
}

/// A block with room for so many rows of each column.
struct Area<'a> {
    landing: Landing,
    /// What the CPU made, and where it belongs.
    anew: Vec<(usize, &'a [u8])>,
    places: Places,
    room: Counts,
    used: Counts,
    /// Tokens whose kinds are numbered as the device does.
    renumber: Vec<Range<usize>>,
}

impl<'a> Areas<'a> {
    /// Says that slices of so many bytes of source follow, which belong together.
    pub(super) fn open(&mut self, bytes: usize) {
        self.expected = bytes;
        if let Some(last) = self.all.last_mut() {
            last.room = last.used;
        }
    }

    /// Starts to bring a slice's columns; says which area they are in, what is before them, and where the area's columns
    /// are. `bytes`: of source.
    pub(super) fn bring(
        &mut self,
        columns: &Columns<&Buffer<u8>, &Buffer<u32>>,
        stretches: &[Stretch<'a>],
        bytes: usize,
        worker: &Worker,
    ) -> Result<(usize, Counts, Places), OpError> {
        let rows = stretches.iter().fold(Counts::default(), |sum, stretch| sum.plus(stretch.rows()));
        if !self.all.last().is_some_and(|area| area.fits(rows)) {
            let room = expected(rows, bytes, self.expected);
            self.all.push(Area::new(room, worker)?);
        }
        self.expected = self.expected.saturating_sub(bytes);
        let number = self.all.len() - 1;
        let area = &mut self.all[number];
        let base = area.used;
        area.bring(columns, stretches, worker)?;
        Ok((number, base, area.places))
    }

    /// Puts what the CPU made among the columns.
    pub(super) fn fill(&mut self, worker: &Worker) {
        for area in &mut self.all {
            area.landing.write(std::mem::take(&mut area.anew), worker.device().copiers());
        }
    }

    /// Waits until everything has come.
    pub(super) fn wait(self, worker: &Worker) -> Result<Vec<Arc<Landed>>, OpError> {
        self.all.into_iter().map(|area| area.wait(worker).map(Arc::new)).collect()
    }
}

/// Rows to make room for: as many for each byte as the first slice has, and some more.
fn expected(rows: Counts, bytes: usize, ahead: usize) -> Counts {
    if ahead <= bytes {
        return rows;
    }
    let ahead = ahead as u64;
    let all = |rows: u32, usual: u32| {
        let likely = u64::from(rows) * ahead / bytes.max(1) as u64;
        let room = (likely + likely * SPARE / 16 + 1024).max(ahead * u64::from(usual) / 64);
        // A table that nobody wants stays empty.
        if rows == 0 { 0 } else { u32::try_from(room).unwrap_or(u32::MAX) }
    };
    Counts {
        nodes: all(rows.nodes, USUAL.nodes),
        names: all(rows.names, USUAL.names),
        values: all(rows.values, USUAL.values),
        extra: all(rows.extra, USUAL.extra),
        lines: all(rows.lines, USUAL.lines),
        tokens: all(rows.tokens, USUAL.tokens),
        comments: all(rows.comments, USUAL.comments),
    }
}

impl<'a> Area<'a> {
    fn new(room: Counts, worker: &Worker) -> Result<Self, OpError> {
        let layout = RefCell::new(Layout::default());
        let places = Columns::<(), ()>::default().map(
            |table, ()| layout.borrow_mut().add(table.of(room) as usize),
            |table, ()| layout.borrow_mut().add(table.of(room) as usize),
        );
        Ok(Self {
            landing: worker.landing(&layout.into_inner())?,
            places,
            room,
            anew: vec![],
            used: Counts::default(),
            renumber: vec![],
        })
    }

    fn fits(&self, rows: Counts) -> bool {
        Table::ALL.iter().all(|table| table.of(rows) <= table.of(self.room) - table.of(self.used))
    }

    fn bring(
        &mut self,
        columns: &Columns<&Buffer<u8>, &Buffer<u32>>,
        stretches: &[Stretch<'a>],
        worker: &Worker,
    ) -> Result<(), OpError> {
        let (order, anew) = (RefCell::new(Order::default()), RefCell::new(std::mem::take(&mut self.anew)));
        for stretch in stretches {
            let (before, behind) = (self.used, self.used.plus(stretch.rows()));
            let places = self.places.map(
                |table, place| place.part(table.rows(before, behind)),
                |table, place| place.part(table.rows(before, behind)),
            );
            self.used = behind;
            match stretch {
                Stretch::Device(from, _) => {
                    self.renumber.push(Table::Tokens.rows(before, behind));
                    let start = |table: Table| table.of(*from) as usize;
                    columns.zip(places).map(
                        |table, (from, to)| order.borrow_mut().add(from, start(table), to),
                        |table, (from, to)| order.borrow_mut().add(from, start(table), to),
                    );
                }
                Stretch::Anew(done) => {
                    done.part().zip(places).map(
                        |_, (piece, to)| anew.borrow_mut().push(written(piece.numbers(), to)),
                        |_, (piece, to)| anew.borrow_mut().push(written(piece.numbers(), to)),
                    );
                }
            }
        }
        self.anew = anew.into_inner();
        worker.bring(&order.into_inner(), &mut self.landing, On::Downloads)
    }

    /// Waits for the columns, and numbers kinds of tokens as they are outside.
    fn wait(self, worker: &Worker) -> Result<Landed, OpError> {
        let mut landed = self.landing.wait()?;
        for tokens in self.renumber {
            let kinds = landed.get_mut(self.places.token_kinds.part(tokens));
            let renumber = |kinds: &mut [u8]| kinds.iter_mut().for_each(|kind| *kind = token_kind(*kind));
            if kinds.len() <= RENUMBERED_AT_ONCE {
                renumber(kinds);
            } else {
                worker.device().cpu().install(|| kinds.par_chunks_mut(RENUMBERED_AT_ONCE).for_each(renumber));
            }
        }
        Ok(landed)
    }
}

/// The bytes of a column that the CPU made, which may have more than is wanted of it, and where they begin.
fn written<T: Pod>(numbers: &[T], to: Place<T>) -> (usize, &[u8]) {
    (to.bytes().start, bytemuck::cast_slice(&numbers[..to.len()]))
}
