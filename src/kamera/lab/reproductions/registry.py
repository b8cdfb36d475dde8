"""All reproductions, in the paper's order."""

from __future__ import annotations

from kamera.lab.reproductions import (
    appendix_d,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    fig11,
    fig12,
    table1,
    table2,
    table3,
    table4,
    table5,
    table6,
    table7,
    table8,
)
from kamera.lab.reproductions.reproduction import Reproduction

REPRODUCTIONS: dict[str, Reproduction] = {
    module.REPRODUCTION.name: module.REPRODUCTION
    for module in (
        table1,
        table2,
        table3,
        table4,
        table5,
        table6,
        table7,
        table8,
        fig3,
        fig4,
        fig5,
        fig6,
        fig7,
        fig8,
        fig9,
        fig10,
        fig11,
        fig12,
        appendix_d,
    )
}
