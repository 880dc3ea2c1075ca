//! What statistics show of lanes.

use crate::fake::*;

#[tokio::test]
async fn lanes_of_one_name_count_as_one_and_lanes_are_sorted() {
    let engine = engine();
    let script = Script::new();
    let _others = engine.lane::<Fake<1>>(lane_config());
    let fakes = [(); 2].map(|()| engine.lane::<Fake>(lane_config()));
    for lane in &fakes {
        response(spawn(lane, script.request(1))).await;
    }
    let names = || engine.stats().lanes.iter().map(|lane| lane.name).collect::<Vec<_>>();
    assert_eq!(names(), ["fake", "other"]);
    let [first, second] = fakes;
    drop(first);
    assert_eq!(names(), ["fake", "other"], "one of the two is open");
    assert_eq!(engine.stats().lanes[0].counts.requests, 2);
    drop(second);
    assert_eq!(names(), ["other"]);
}
