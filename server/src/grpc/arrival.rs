//! Requests that have partly arrived: what is certain about them, and refusing them before the rest arrives.

use bytes::Buf;
use tonic::Status;

use super::decoded_size::{length, tag};

/// A message is checked only while more than this is missing: HTTP/2's default frame size.
const MIN_MISSING: usize = 16 << 10;

/// Refuses a request that has partly arrived.
pub(super) type ArrivalCheck = Box<dyn Fn(&Arrival<'_>) -> Result<(), Status> + Send>;

/// A message that has partly arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// Its size on the wire, from its prefix.
    pub(super) length: usize,
    pub(super) compressed: bool,
    /// Its first bytes.
    pub(super) received: &'a [u8],
}

impl Arrival<'_> {
    /// Least number and total size of the values of a length-delimited field: of those whose length has arrived. Nothing is
    /// known about a compressed message, and a value that exceeds the message is malformed.
    pub(super) fn values(&self, field: u64) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        let mut rest = if self.compressed { &[][..] } else { self.received };
        while rest.has_remaining() {
            let Some((number, wire)) = tag(&mut rest) else { break };
            let Some(size) = length(wire, &mut rest) else { break };
            let missing = self.length - self.received.len();
            if size > rest.len() + missing {
                break;
            }
            if (number, wire) == (field, 2) {
                count += 1;
                bytes += size as u64;
            }
            rest.advance(size.min(rest.len()));
        }
        (count, bytes)
    }
}

/// When a message is checked: at first, and whenever twice as much of it has arrived, since that makes more of it certain.
#[derive(Debug, Default)]
pub(super) struct CheckSchedule {
    next: usize,
}

impl CheckSchedule {
    /// Whether a check is due.
    pub(super) fn is_due(&mut self, length: usize, received: usize) -> bool {
        let is_due = received >= self.next && length - received > MIN_MISSING;
        if is_due {
            self.next = (2 * received).max(MIN_MISSING);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use accelerd_proto::v1 as pb;
    use prost::Message;

    use super::*;

    const SOURCES: u64 = 1;

    #[test]
    fn values_count_as_soon_as_their_length_has_arrived() {
        let sources: Vec<_> = [3, 0, 200, 40_000].map(|size| vec![b'x'; size].into()).into();
        let request = pb::ParseRequest { sources, feature_version: 9, ..pb::ParseRequest::default() };
        let message = request.encode_to_vec();
        let values = |received: usize, compressed| {
            Arrival { length: message.len(), compressed, received: &message[..received] }.values(SOURCES)
        };
        // A tag of one byte and a length of one, one, two and three bytes precede the sources.
        let second = 2 + 3;
        let (third, fourth) = (second + 2, second + 2 + 3 + 200);
        let cases = [
            (0, (0, 0)),
            (1, (0, 0)),
            (2, (1, 3)),
            (second + 1, (1, 3)),
            (third, (2, 3)),
            (third + 2, (2, 3)),
            (third + 3, (3, 203)),
            (fourth + 3, (3, 203)),
            (fourth + 4, (4, 40_203)),
            (message.len(), (4, 40_203)),
        ];
        for (received, expected) in cases {
            assert_eq!(values(received, false), expected, "{received} bytes");
            assert_eq!(values(received, true), (0, 0), "{received} bytes");
        }
    }

    #[test]
    fn a_value_that_exceeds_the_message_does_not_count() {
        let exceeding = [0x0a, 0x01, b'x', 0x0a, 0x05, b'y'];
        for (length, expected) in [(10, (2, 6)), (9, (1, 1)), (6, (1, 1))] {
            assert_eq!(Arrival { length, compressed: false, received: &exceeding }.values(SOURCES), expected);
        }
        let endless = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Arrival { length: 1 << 20, compressed: false, received: &endless }.values(SOURCES), (0, 0));
    }

    #[test]
    fn a_check_is_due_whenever_twice_as_much_has_arrived_until_little_is_missing() {
        let due_at = |length: usize| -> Vec<usize> {
            let mut schedule = CheckSchedule::default();
            (0..length >> 10).map(|kib| kib << 10).filter(|received| schedule.is_due(length, *received)).collect()
        };
        assert_eq!(due_at(16 << 10), [0; 0]);
        assert_eq!(due_at(64 << 10), [0, 16 << 10, 32 << 10]);
        assert_eq!(due_at(100 << 10), [0, 16 << 10, 32 << 10, 64 << 10]);
    }
}
