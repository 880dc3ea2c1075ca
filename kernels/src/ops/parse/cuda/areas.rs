//! Where columns land: slices of one request one behind the other, so that its columns need no copy to be whole.

use std::{cell::RefCell, sync::Arc};

use bytemuck::Pod;
use rayon::prelude::*;

use crate::{
    OpError,
    cuda::{Buffer, Landed, Landing, Layout, On, Place, Worker},
    ops::parse::{Columns, Counts, columns::Table, cpu::token_kind},
};

/// Rows that an area has room for beyond what is expected, in sixteenths.
const SPARE: u64 = 8;
/// Token kinds that one thread renumbers.
const RENUMBERED_AT_ONCE: usize = 1 << 20;

/// Where something of each column lies.
pub(super) type Places = Columns<Place<u8>, Place<u32>>;

/// The areas of a batch.
#[derive(Default)]
pub(super) struct Areas {
    all: Vec<Area>,
    /// Bytes of source that are expected in the area still, those of the next slice included.
    expected: usize,
}

/// A block with room for so many rows of each column.
struct Area {
    landing: Landing,
    places: Places,
    room: Counts,
    used: Counts,
}

impl Areas {
    /// Says that slices of so many bytes of source follow, which belong together.
    pub(super) fn open(&mut self, bytes: usize) {
        self.expected = bytes;
        if let Some(last) = self.all.last_mut() {
            last.room = last.used;
        }
    }

    /// Starts to bring a slice's columns, of so many rows; says which area they are in, and where. `bytes`: of source.
    pub(super) fn bring(
        &mut self,
        columns: &Columns<&Buffer<u8>, &Buffer<u32>>,
        rows: Counts,
        bytes: usize,
        worker: &Worker,
    ) -> Result<(usize, Places), OpError> {
        if !self.all.last().is_some_and(|area| area.fits(rows)) {
            let room = expected(rows, bytes, self.expected);
            self.all.push(Area::new(room, worker)?);
        }
        self.expected = self.expected.saturating_sub(bytes);
        let number = self.all.len() - 1;
        Ok((number, self.all[number].bring(columns, rows, worker)?))
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
    let all = |rows: u32| {
        let rows = u64::from(rows) * ahead as u64 / bytes.max(1) as u64;
        u32::try_from(rows + rows * SPARE / 16 + 1024).unwrap_or(u32::MAX)
    };
    let Counts { nodes, names, values, extra, lines, tokens, comments } = rows;
    // A table that nobody wants stays empty.
    let all = |rows: u32| if rows == 0 { 0 } else { all(rows) };
    Counts {
        nodes: all(nodes),
        names: all(names),
        values: all(values),
        extra: all(extra),
        lines: all(lines),
        tokens: all(tokens),
        comments: all(comments),
    }
}

impl Area {
    fn new(room: Counts, worker: &Worker) -> Result<Self, OpError> {
        let layout = RefCell::new(Layout::default());
        let places = Columns::<(), ()>::default().map(
            |table, ()| layout.borrow_mut().add(table.of(room) as usize),
            |table, ()| layout.borrow_mut().add(table.of(room) as usize),
        );
        Ok(Self { landing: worker.landing(&layout.into_inner())?, places, room, used: Counts::default() })
    }

    fn fits(&self, rows: Counts) -> bool {
        Table::ALL.iter().all(|table| table.of(rows) <= table.of(self.room) - table.of(self.used))
    }

    fn bring(
        &mut self,
        columns: &Columns<&Buffer<u8>, &Buffer<u32>>,
        rows: Counts,
        worker: &Worker,
    ) -> Result<Places, OpError> {
        let (from, to) = (self.used, self.used.plus(rows));
        let places = self
            .places
            .map(|table, place| place.part(table.rows(from, to)), |table, place| place.part(table.rows(from, to)));
        let copies = RefCell::new(Copies { landing: &mut self.landing, worker, failed: Ok(()) });
        columns.zip(places).map(
            |_, (from, to)| copies.borrow_mut().start(from, to),
            |_, (from, to)| copies.borrow_mut().start(from, to),
        );
        self.used = to;
        copies.into_inner().failed?;
        Ok(places)
    }

    /// Waits for the columns, and numbers kinds of tokens as they are outside.
    fn wait(self, worker: &Worker) -> Result<Landed, OpError> {
        let mut landed = self.landing.wait()?;
        let kinds = landed.get_mut(self.places.token_kinds.part(0..self.used.tokens as usize));
        let renumber = |kinds: &mut [u8]| kinds.iter_mut().for_each(|kind| *kind = token_kind(*kind));
        if kinds.len() <= RENUMBERED_AT_ONCE {
            renumber(kinds);
        } else {
            worker.device().cpu().install(|| kinds.par_chunks_mut(RENUMBERED_AT_ONCE).for_each(renumber));
        }
        Ok(landed)
    }
}

/// Copies to an area, and the first failure among them.
struct Copies<'a> {
    landing: &'a mut Landing,
    worker: &'a Worker,
    failed: Result<(), OpError>,
}

impl Copies<'_> {
    fn start<T: Pod>(&mut self, from: &Buffer<T>, to: Place<T>) {
        if self.failed.is_ok() {
            self.failed = self.worker.bring(from, self.landing, to, On::Downloads);
        }
    }
}
