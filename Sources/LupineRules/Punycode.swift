/// RFC 3492, with every addition and multiplication checked.
enum Punycode {
  private static let base = 36
  private static let tMin = 1
  private static let tMax = 26

  /// The Punycode of a label, without `xn--`; `nil` on overflow.
  static func encode(_ label: [Unicode.Scalar]) -> [UInt8]? {
    var output = label.filter(\.isASCII).map { UInt8(ascii: $0) }
    let basic = output.count
    if basic > 0 { output.append(UInt8(ascii: "-")) }
    var handled = basic
    var next = 128
    var delta = 0
    var bias = 72
    while handled < label.count {
      guard let smallest = label.lazy.map({ Int($0.value) }).filter({ $0 >= next }).min() else { return nil }
      let (product, overflow) = (smallest - next).multipliedReportingOverflow(by: handled + 1)
      guard !overflow, product <= Int(Int32.max) - delta else { return nil }
      delta += product
      next = smallest
      for scalar in label {
        if scalar.value < next { delta += 1 }
        if scalar.value == next {
          appendNumber(delta, bias: bias, to: &output)
          bias = adapt(delta, points: handled + 1, first: handled == basic)
          delta = 0
          handled += 1
        }
      }
      delta += 1
      next += 1
    }
    return output
  }

  /// The label that `bytes` (what follows `xn--`, lower-case) encode; `nil` if they encode none.
  static func decode(_ bytes: Span<UInt8>, _ range: Range<Int>) -> [Unicode.Scalar]? {
    var output: [Unicode.Scalar] = []
    var index = range.lowerBound
    if let hyphen = range.last(where: { bytes[$0] == UInt8(ascii: "-") }) {
      output = (range.lowerBound..<hyphen).map { Unicode.Scalar(bytes[$0]) }
      index = hyphen + 1
    }
    let basic = output.count
    var next = 128
    var position = 0
    var bias = 72
    while index < range.upperBound {
      guard let (delta, end) = readNumber(bytes, index..<range.upperBound, bias: bias) else { return nil }
      index = end
      let (sum, overflow) = position.addingReportingOverflow(delta)
      let count = output.count + 1
      guard !overflow else { return nil }
      bias = adapt(delta, points: count, first: output.count == basic)
      next += sum / count
      position = sum % count
      guard next <= 0x10FFFF, let scalar = Unicode.Scalar(UInt32(next)) else { return nil }
      output.insert(scalar, at: position)
      position += 1
    }
    return output
  }

  private static func threshold(_ position: Int, _ bias: Int) -> Int {
    min(max(position - bias, tMin), tMax)
  }

  private static func appendNumber(_ number: Int, bias: Int, to output: inout [UInt8]) {
    var rest = number
    var position = base
    while true {
      let limit = threshold(position, bias)
      guard rest >= limit else { break }
      output.append(digit(limit + (rest - limit) % (base - limit)))
      rest = (rest - limit) / (base - limit)
      position += base
    }
    output.append(digit(rest))
  }

  /// One number and the position after it.
  private static func readNumber(_ bytes: Span<UInt8>, _ range: Range<Int>, bias: Int) -> (Int, end: Int)? {
    var number = 0
    var weight = 1
    var position = base
    for index in range {
      guard let digit = value(bytes[index]) else { return nil }
      let (product, overflow) = digit.multipliedReportingOverflow(by: weight)
      guard !overflow, product <= Int(Int32.max) - number else { return nil }
      number += product
      let limit = threshold(position, bias)
      if digit < limit { return (number, index + 1) }
      let (grown, tooLarge) = weight.multipliedReportingOverflow(by: base - limit)
      guard !tooLarge, grown <= Int(Int32.max) else { return nil }
      weight = grown
      position += base
    }
    return nil
  }

  private static func adapt(_ delta: Int, points: Int, first: Bool) -> Int {
    var rest = first ? delta / 700 : delta / 2
    rest += rest / points
    var steps = 0
    while rest > (base - tMin) * tMax / 2 {
      rest /= base - tMin
      steps += base
    }
    return steps + (base - tMin + 1) * rest / (rest + 38)
  }

  private static func digit(_ value: Int) -> UInt8 {
    UInt8(value < 26 ? Int(UInt8(ascii: "a")) + value : Int(UInt8(ascii: "0")) + value - 26)
  }

  private static func value(_ byte: UInt8) -> Int? {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"): Int(byte - UInt8(ascii: "a"))
    case UInt8(ascii: "0")...UInt8(ascii: "9"): Int(byte - UInt8(ascii: "0")) + 26
    default: nil
    }
  }
}
