"""Regions that a query may name, in Chinese and English, and which of them lies in which.

Compact on purpose: continents, the larger countries, China's provinces and major cities, the states and major
cities of the USA, and cities that are often asked about elsewhere. Left out are names that are ordinary words
or persons' names as well (Nice, Mobile, 中山, 德州), districts and towns. A region that is not in here is not seen,
and what is named after a place (北京大学) names it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

# A region a line: its names, what lies in it indented below it. The first name is what
# the region is called in results. `=` before a name: only with exactly these capitals, since in others it
# is a word (us, turkey, wales).
_REGIONS: Final = """
Asia / 亚洲
  Southeast Asia / 东南亚
    Singapore / 新加坡
    Thailand / 泰国
      Bangkok / 曼谷
    Malaysia / 马来西亚
    Vietnam / 越南
    Indonesia / 印度尼西亚 / 印尼
    Philippines / 菲律宾
    Cambodia / 柬埔寨
    Myanmar / 缅甸
  China / Mainland China / 中国 / 中国大陆
    Beijing / 北京
    Shanghai / 上海
    Tianjin / 天津
    Chongqing / 重庆
    Hebei / 河北
      Shijiazhuang / 石家庄
      Tangshan / 唐山
      Baoding / 保定
    Shanxi / 山西
      Taiyuan / 太原
    Inner Mongolia / 内蒙古
      Hohhot / 呼和浩特
      Baotou / 包头
    Liaoning / 辽宁
      Shenyang / 沈阳
      Dalian / 大连
    Jilin / 吉林
      Changchun / 长春
    Heilongjiang / 黑龙江
      Harbin / 哈尔滨
    Jiangsu / 江苏
      Nanjing / 南京
      Suzhou / 苏州
      Wuxi / 无锡
      Changzhou / 常州
      Nantong / 南通
      Xuzhou / 徐州
    Zhejiang / 浙江
      Hangzhou / 杭州
      Ningbo / 宁波
      Wenzhou / 温州
    Anhui / 安徽
      Hefei / 合肥
    Fujian / 福建
      Fuzhou / 福州
      Xiamen / 厦门
      Quanzhou / 泉州
    Jiangxi / 江西
      Nanchang / 南昌
    Shandong / 山东
      Jinan / 济南
      Qingdao / 青岛
      Yantai / 烟台
      Weifang / 潍坊
    Henan / 河南
      Zhengzhou / 郑州
      Luoyang / 洛阳
    Hubei / 湖北
      Wuhan / 武汉
      Yichang / 宜昌
    Hunan / 湖南
      Changsha / 长沙
    Guangdong / 广东
      Guangzhou / 广州
      Shenzhen / 深圳
      Foshan / 佛山
      Dongguan / 东莞
      Zhuhai / 珠海
      Huizhou / 惠州
    Guangxi / 广西
      Nanning / 南宁
      Guilin / 桂林
    Hainan / 海南
      Haikou / 海口
      Sanya / 三亚
    Sichuan / 四川
      Chengdu / 成都
      Mianyang / 绵阳
    Guizhou / 贵州
      Guiyang / 贵阳
    Yunnan / 云南
      Kunming / 昆明
      Lijiang / 丽江
    Tibet / Xizang / 西藏
      Lhasa / 拉萨
    Shaanxi / 陕西
      Xi'an / Xian / 西安
    Gansu / 甘肃
      Lanzhou / 兰州
    Qinghai / 青海
      Xining / 西宁
    Ningxia / 宁夏
      Yinchuan / 银川
    Xinjiang / 新疆
      Urumqi / 乌鲁木齐
    Hong Kong / 香港
    Macau / Macao / 澳门
    Taiwan / 台湾
      Taipei / 台北
  Japan / 日本
    Tokyo / 东京
    Osaka / 大阪
    Kyoto / 京都
    Hokkaido / 北海道
  South Korea / Korea / 韩国
    Seoul / 首尔
  North Korea / 朝鲜
  India / 印度
    Mumbai / 孟买
    Delhi / New Delhi / 德里 / 新德里
    Bangalore / Bengaluru / 班加罗尔
  Pakistan / 巴基斯坦
  Bangladesh / 孟加拉国
  Mongolia / 蒙古国
  Kazakhstan / 哈萨克斯坦
  Middle East / 中东
    Iran / 伊朗
    Iraq / 伊拉克
    Israel / 以色列
    Saudi Arabia / 沙特阿拉伯 / 沙特
    United Arab Emirates / =UAE / 阿联酋
      Dubai / 迪拜
    Qatar / 卡塔尔
    =Turkey / Türkiye / 土耳其
      Istanbul / 伊斯坦布尔
Europe / 欧洲 / =EU / European Union / 欧盟
  United Kingdom / =UK / Great Britain / 英国
    England / 英格兰
      London / 伦敦
      Manchester / 曼彻斯特
    Scotland / 苏格兰
      Edinburgh / 爱丁堡
    =Wales / 威尔士
    Northern Ireland / 北爱尔兰
  Ireland / 爱尔兰
    Dublin / 都柏林
  France / 法国
    Paris / 巴黎
  Germany / 德国
    Berlin / 柏林
    Munich / 慕尼黑
    Hamburg / 汉堡市
    Frankfurt / 法兰克福
  Italy / 意大利
    Rome / 罗马
    Milan / 米兰
  Spain / 西班牙
    Madrid / 马德里
    Barcelona / 巴塞罗那
  Portugal / 葡萄牙
    Lisbon / 里斯本
  Netherlands / 荷兰
    Amsterdam / 阿姆斯特丹
  Belgium / 比利时
  Switzerland / 瑞士
    Zurich / 苏黎世
  Austria / 奥地利
    Vienna / 维也纳
  Sweden / 瑞典
  Norway / 挪威
  Denmark / 丹麦
  Finland / 芬兰
  Poland / 波兰
  Greece / 希腊
  Hungary / 匈牙利
  Romania / 罗马尼亚
  Czech Republic / Czechia / 捷克
  Ukraine / 乌克兰
  Russia / 俄罗斯
    Moscow / 莫斯科
North America / 北美
  United States / United States of America / =USA / =US / =U.S. / =U.S.A. / 美国
    Alabama
    Alaska / 阿拉斯加
    Arizona / 亚利桑那
    Arkansas
    California / 加利福尼亚 / 加州
      Los Angeles / 洛杉矶
      San Francisco / 旧金山
      San Diego / 圣迭戈
      San Jose
      Silicon Valley / 硅谷
    Colorado / 科罗拉多
      Denver / 丹佛
    Connecticut
    Delaware
    Florida / 佛罗里达 / 佛州
      Miami / 迈阿密
      Orlando
    =Georgia
      Atlanta / 亚特兰大
    Hawaii / 夏威夷
    Idaho
    Illinois / 伊利诺伊
      Chicago / 芝加哥
    Indiana
    Iowa
    Kansas
    Kentucky
    Louisiana
      New Orleans / 新奥尔良
    =Maine
    Maryland
    Massachusetts / 马萨诸塞 / 麻省
      Boston / 波士顿
    Michigan / 密歇根
      Detroit / 底特律
    Minnesota
    Mississippi
    Missouri
    Montana
    Nebraska
    Nevada / 内华达
      Las Vegas / 拉斯维加斯
    New Hampshire
    New Jersey / 新泽西
    New Mexico
    New York / New York State / New York City / =NYC / 纽约
    North Carolina
    North Dakota
    Ohio
    Oklahoma
    Oregon
      Portland
    Pennsylvania / 宾夕法尼亚 / 宾州
      Philadelphia / 费城
    Rhode Island
    South Carolina
    South Dakota
    Tennessee
      Nashville
    Texas / 得克萨斯 / 德克萨斯 / 得州
      Houston / 休斯顿
      Dallas / 达拉斯
      Austin / 奥斯汀
    Utah
    Vermont
    Virginia / 弗吉尼亚
    West Virginia
    Washington State / 华盛顿州
      Seattle / 西雅图
    Washington DC / Washington, DC / Washington D.C. / Washington, D.C. / 华盛顿特区
    Wisconsin
    Wyoming
  Canada / 加拿大
    Toronto / 多伦多
    Vancouver / 温哥华
    Montreal / 蒙特利尔
    Ontario / 安大略
    Quebec / 魁北克
    British Columbia / 不列颠哥伦比亚
  Mexico / 墨西哥
South America / 南美 / Latin America / 拉丁美洲 / 拉美
  Brazil / 巴西
  Argentina / 阿根廷
  Colombia / 哥伦比亚
  Peru / 秘鲁
  =Chile / 智利
Africa / 非洲
  Egypt / 埃及
  Nigeria / 尼日利亚
  Kenya / 肯尼亚
  South Africa / 南非
  Morocco / 摩洛哥
  Ethiopia / 埃塞俄比亚
Oceania / 大洋洲
  Australia / 澳大利亚 / 澳洲
    Sydney / 悉尼
    Melbourne / 墨尔本
    Queensland / 昆士兰
    Brisbane / 布里斯班
  New Zealand / 新西兰
    Auckland / 奥克兰
"""


def regions_in(text: str) -> frozenset[str]:
    """The regions that a text names, each by its first name in the list: {"Beijing"} for 北京 and for beijing.

    Of overlapping names the longest counts: "West Virginia" does not name Virginia.
    """
    pattern, by_name = _compiled()
    shown = unicodedata.normalize("NFKC", text)
    found = (match.group() for match in pattern.finditer(shown))
    return frozenset(by_name.get(name) or by_name[name.casefold()] for name in found)


def names_in_lower_case() -> tuple[str, ...]:
    """All names of regions but those that are other words in lower case (us, turkey)."""
    return tuple(name.casefold() for name in _places()[1] if not name.startswith("="))


def enclosing(region: str) -> Iterator[str]:
    """The regions that this one lies in, the smallest first."""
    parents = _places()[0]
    while parent := parents[region]:
        yield parent
        region = parent


@cache
def _places() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What each region lies in ("" for a continent), and the region by each spelling, `=` included."""
    parents: dict[str, str] = {}
    spellings: dict[str, str] = {}
    above: list[str] = []
    for line in _REGIONS.strip().splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = [name.strip() for name in line.split("/")]
        region = names[0].removeprefix("=")
        above = [*above[:depth], region]
        parents[region] = above[-2] if depth else ""
        spellings.update(dict.fromkeys(names, region))
    return parents, spellings


@cache
def _compiled() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """A pattern for all names, and the region by name: as written for those with `=`, else in lower case."""
    by_name: dict[str, str] = {}
    alternatives = []
    for spelling, region in _places()[1].items():
        exact, name = spelling.startswith("="), spelling.removeprefix("=")
        by_name[name if exact else name.casefold()] = region
        text = re.escape(name) if exact else f"(?i:{re.escape(name)})"
        # Words end where letters do; between ideographs there are no such ends.
        alternatives.append((len(name), rf"(?<![A-Za-z]){text}(?![A-Za-z])" if name[0].isascii() else text))
    alternatives.sort(key=lambda one: -one[0])
    return re.compile("|".join(text for _, text in alternatives)), by_name
