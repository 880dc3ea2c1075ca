package io.accelerd;

/** The numbers of points that a write inserted and replaced. */
public final class UpsertResult {
  private final long insertedCount;
  private final long updatedCount;

  UpsertResult(long insertedCount, long updatedCount) {
    this.insertedCount = insertedCount;
    this.updatedCount = updatedCount;
  }

  /** New points. */
  public long insertedCount() {
    return insertedCount;
  }

  /** Replaced points. A part of a bulk write that was sent again counts here. */
  public long updatedCount() {
    return updatedCount;
  }

  UpsertResult plus(long inserted, long updated) {
    return new UpsertResult(insertedCount + inserted, updatedCount + updated);
  }

  @Override
  public String toString() {
    return insertedCount + " inserted, " + updatedCount + " updated";
  }
}
