/// Which recorded exchanges may be those of a request, and which were played. By what has to be equal in any case, so that no request is compared with
/// all of them.
struct ReplayIndex: Sendable {
  private struct List: Sendable {
    var entries: [Int] = []
    /// The entries before this place of the list were all played.
    var start = 0
  }

  private var lists: [ReplayLine.Place: List] = [:]
  private(set) var isPlayed: [Bool]
  /// The entries before this one were all played.
  private var first = 0

  init(_ places: [ReplayLine.Place]) {
    isPlayed = Array(repeating: false, count: places.count)
    for (entry, place) in places.enumerated() { lists[place, default: List()].entries.append(entry) }
  }

  mutating func play(_ entry: Int) { isPlayed[entry] = true }

  /// The first that was not played; nil: all were.
  mutating func next() -> Int? {
    while first < isPlayed.count, isPlayed[first] { first += 1 }
    return first < isPlayed.count ? first : nil
  }

  /// The entries of a place.
  func entries(of place: ReplayLine.Place) -> ArraySlice<Int> { lists[place]?.entries[...] ?? [] }

  /// Those from the first on that was not played.
  mutating func remaining(of place: ReplayLine.Place) -> ArraySlice<Int> {
    while let list = lists[place], list.start < list.entries.count, isPlayed[list.entries[list.start]] {
      lists[place]?.start += 1
    }
    guard let list = lists[place] else { return [] }
    return list.entries[list.start...]
  }
}
