internal import LupineBase

extension PoolMachine {
  struct Host {
    var key: Key?
    var live = 0
    var opening = 0
    /// In the line of those whom only the total limit holds back; nil: not there.
    var starvedPlace: SlotList<Int>.Token?
    var idle = SlotList<Int>.List()
    var waiters = SlotList<Queued>.List()
    /// Waiters with another priority than the default; nearly always there are none.
    var high = SlotList<Queued>.List()
    var low = SlotList<Queued>.List()
    /// Answers given while several priorities waited.
    var contested: UInt8 = 0
    /// Connections that it may have.
    var limit = 0
    /// No opening that is under way began before this.
    var openingSince = Instant(nanoseconds: 0)
    /// Of an opening without a live connection: the arrivals before it began, and when it failed. Nil since one succeeded.
    var failure: (arrivals: UInt64, at: Instant)?

    var isStarved: Bool { starvedPlace != nil }
    var waiting: Int { waiters.count + high.count + low.count }

    subscript(priority: TransferPriority) -> SlotList<Queued>.List {
      get {
        switch priority {
        case .low: low
        case .default: waiters
        case .high: high
        }
      }
      set {
        switch priority {
        case .low: low = newValue
        case .default: waiters = newValue
        case .high: high = newValue
        }
      }
    }
  }
}
