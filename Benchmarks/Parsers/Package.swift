// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Parsers",
  dependencies: [.package(name: "Lupine", path: "../..")],
  targets: [
    .executableTarget(name: "ParserLoop", dependencies: [.product(name: "LupineWire", package: "Lupine")])
  ]
)
