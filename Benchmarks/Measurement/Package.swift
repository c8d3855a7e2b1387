// swift-tools-version: 6.2
import PackageDescription

extension Product {
  static func module(_ name: String) -> Product { library(name: name, targets: [name]) }
}

// What our programs and the peers in Swift share: clocks, memory, latencies, options and the line of JSON. Apart from both, so that a
// peer builds nothing of Lupine.
let package = Package(
  name: "Measurement",
  products: [.module("BenchmarkSupport")],
  targets: [
    .target(name: "CAllocator"),
    .target(name: "BenchmarkSupport", dependencies: ["CAllocator"], swiftSettings: [.swiftLanguageMode(.v6)]),
  ]
)
