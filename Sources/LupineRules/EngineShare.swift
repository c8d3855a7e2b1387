/// What one of several engines has of a number that is a total for all of them; pure.
///
/// The parts add up to the whole, and differ by one at most: those of lower numbers are the larger ones. So a limit is kept without the engines asking
/// each other, at the price that one of them may have used up its part while another has room.
package struct EngineShare: Hashable, Sendable {
  /// The most engines that a session may ask for.
  package static let maximum = 64

  private let index: UInt8
  private let count: UInt8

  /// - Parameter index: which of `count` parts, from 0.
  package init(_ index: Int, of count: Int) {
    precondition((1...Self.maximum).contains(count) && (0..<count).contains(index), "there is no such part")
    self.index = UInt8(index)
    self.count = UInt8(count)
  }

  /// All of it.
  package static var whole: EngineShare { EngineShare(0, of: 1) }

  /// The part of a number that is not negative.
  package func part(of whole: Int) -> Int {
    whole / Int(count) + (Int(index) < whole % Int(count) ? 1 : 0)
  }

  /// How many engines are of use to a session that asks for `wanted`: each has a connection, and a place for a request that waits for it to open.
  package static func engines(_ wanted: Int, connections: Int, waiting: Int) -> Int {
    max(1, min(wanted, connections, waiting))
  }

  /// The engine from which on the parts of a key's connections are dealt out, the larger ones first: the key's own place, so that several keys
  /// do not all have their larger parts on the same engines. But where that might be more than an engine has of the total, the one whose part of the total is a
  /// larger one too.
  package static func first(_ place: Int, connections: Int, total: Int, engines: Int) -> Int {
    (connections - 1) / engines < total / engines ? place : 0
  }

  /// Which of a key's `engines`, in the order in which its connections were dealt out, has the turn: each as often as it has connections.
  package static func index(ofTurn turn: UInt, connections: Int, engines: Int) -> Int {
    Int(turn % UInt(connections)) % engines
  }
}

/// Which of a session's engines has the connections of which key; pure.
///
/// A key is placed by a hash, which nobody outside can foresee: whoever falls into a place of its own is given to the engine that has fewest, so that a few
/// hosts do not land on one; who falls where another one did goes with it. Invariants: equal hashes have one engine, for good; nothing grows with the number of
/// keys; the numbers of places that were given to two engines differ by one at most.
package struct EnginePlaces: Sendable {
  private static let places = 4_096
  private static let free = UInt8.max

  private var engines = [UInt8](repeating: EnginePlaces.free, count: EnginePlaces.places)
  private var counts: [Int]

  /// - Parameter engines: how many there are, from 1 to `EngineShare.maximum`.
  package init(engines: Int) {
    precondition((1...EngineShare.maximum).contains(engines), "there are no so many engines")
    counts = [Int](repeating: 0, count: engines)
  }

  /// The engine of a key with this hash.
  package mutating func engine(ofHash hash: Int) -> Int {
    let place = Int(UInt(bitPattern: hash) % UInt(Self.places))
    guard engines[place] == Self.free else { return Int(engines[place]) }
    var fewest = 0
    for engine in counts.indices where counts[engine] < counts[fewest] { fewest = engine }
    counts[fewest] += 1
    engines[place] = UInt8(fewest)
    return fewest
  }
}
